#include "formats/format.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "formats/answer.h"
#include "formats/list.h"

namespace penstock::formats {
namespace {

constexpr std::string_view kNone = "none", kAuto = "auto";

/// Whether calls are looked for. Formats that frame answers too are, whether there are tools or not.
bool needs(const OutputFormat& format, const ToolSet& tools) {
  if (format.tools == nullptr) return false;
  return !tools.empty() || format.tools->read_begin != nullptr || format.tools->messages != nullptr;
}

/// Text as it is.
class PlainParser : public OutputParser {
 public:
  void push(std::string_view text, std::vector<Piece>& out) override {
    if (!text.empty()) out.push_back(Text{std::string(text), at_});
    at_ += text.size();
  }

  void finish(std::vector<Piece>&) override {}

 private:
  size_t at_ = 0;
};

class AnswerParser : public OutputParser {
 public:
  AnswerParser(const OutputFormat& format, const ParserOptions& options)
      : reading_{{}, {}, ToolSet(options.tools)} {
    const ToolFormat* tools = needs(format, reading_.tools) ? format.tools : nullptr;
    answer_ = read_answer(reading_, tools, format.reasoning, options.in_reasoning);
  }

  void push(std::string_view text, std::vector<Piece>& out) override {
    reading_.out.into(&out);
    start();
    reading_.in.push(text);
    check();
  }

  void finish(std::vector<Piece>& out) override {
    reading_.out.into(&out);
    start();
    reading_.in.finish();
    check();
  }

 private:
  void start() {
    if (!std::exchange(is_started_, true)) answer_.start();
  }

  void check() const {
    if (answer_.done()) answer_.result();
  }

  Reading reading_;
  Step answer_;
  bool is_started_ = false;
};

std::string_view right_trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool is_in(std::string_view chat_template, const std::vector<std::vector<std::string_view>>& sets) {
  return std::any_of(sets.begin(), sets.end(), [&](const std::vector<std::string_view>& parts) {
    return std::all_of(parts.begin(), parts.end(), [&](std::string_view part) {
      return chat_template.find(part) != std::string_view::npos;
    });
  });
}

[[noreturn]] void refuse(std::string_view what, std::string_view got, const std::string& names) {
  throw base::Error(base::Code::kInvalidRequest, "[formats.chosen] expected a " + std::string(what) +
                                                     " format (auto, none" + names + "); got \"" +
                                                     std::string(got) + "\"");
}

const ToolFormat* tools_named(std::string_view name, const ToolFormat* detected) {
  if (name == kAuto) return detected;
  if (name == kNone) return nullptr;
  std::string names;
  for (const ToolFormat* format : kToolFormats) {
    if (format->name == name) return format;
    names += ", " + std::string(format->name);
  }
  refuse("tool", name, names);
}

const ReasoningFormat* reasoning_named(std::string_view name, const ReasoningFormat* detected) {
  if (name == kAuto) return detected;
  if (name == kNone) return nullptr;
  std::string names;
  for (const ReasoningFormat& format : reasoning_formats()) {
    if (format.name == name) return &format;
    names += ", " + std::string(format.name);
  }
  refuse("reasoning", name, names);
}

}  // namespace

std::string_view OutputFormat::tool_name() const {
  return tools == nullptr ? kNone : tools->name;
}

std::string_view OutputFormat::reasoning_name() const {
  return reasoning == nullptr ? kNone : reasoning->name;
}

std::vector<std::string> OutputFormat::spelled_tokens() const {
  std::vector<std::string> out;
  if (tools != nullptr) out.assign(tools->spelled.begin(), tools->spelled.end());
  if (reasoning == nullptr) return out;
  out.insert(out.end(), reasoning->spelled.begin(), reasoning->spelled.end());
  if (!reasoning->spelled.empty()) return out;
  out.insert(out.end(), {std::string(reasoning->open), std::string(reasoning->close)});
  out.insert(out.end(), reasoning->dropped.begin(), reasoning->dropped.end());
  return out;
}

bool OutputFormat::opens_reasoning(std::string_view rendered_prompt) const {
  return reasoning != nullptr && right_trimmed(rendered_prompt).ends_with(right_trimmed(reasoning->open));
}

OutputFormat detect(std::string_view chat_template) {
  OutputFormat out;
  const auto tools = std::find_if(kToolFormats.begin(), kToolFormats.end(), [&](const ToolFormat* format) {
    return is_in(chat_template, format->found_by);
  });
  if (tools != kToolFormats.end()) out.tools = *tools;
  for (const ReasoningFormat& format : reasoning_formats()) {
    if (out.reasoning == nullptr && is_in(chat_template, format.found_by)) out.reasoning = &format;
  }
  return out;
}

OutputFormat chosen(std::string_view tools, std::string_view reasoning, const OutputFormat& detected) {
  return {tools_named(tools, detected.tools), reasoning_named(reasoning, detected.reasoning)};
}

std::unique_ptr<OutputParser> make_parser(const OutputFormat& format, ParserOptions options) {
  const bool has_calls = needs(format, ToolSet(options.tools));
  if (!has_calls && format.reasoning == nullptr) return std::make_unique<PlainParser>();
  return std::make_unique<AnswerParser>(format, options);
}

}  // namespace penstock::formats
