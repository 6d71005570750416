// Outputs of a model: every format's parser says the same of an output however it is cut, and arguments of a
// complete call are an object. The first byte names the tool format, the second the reasoning format.
#include "base/json.h"
#include "formats/format.h"
#include "formats/list.h"
#include "fuzz/target.h"

namespace penstock::fuzz {
namespace {

using base::Json;
using formats::Piece;

const Json& tools() {
  static const Json kTools = Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters":
      {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer"}, "o": {}}}}}])");
  return kTools;
}

formats::OutputFormat format_of(uint8_t tool, uint8_t reasoning) {
  const auto& all = formats::reasoning_formats();
  const size_t index = reasoning % (all.size() + 1);
  return {formats::kToolFormats[tool % formats::kToolFormats.size()],
          index == all.size() ? nullptr : &all[index]};
}

/// All that the pieces say, in one text. `step` bytes are fed at a time.
std::string said(const formats::OutputFormat& format, bool in_reasoning, std::string_view output,
                 size_t step) {
  const std::unique_ptr<formats::OutputParser> parser =
      formats::make_parser(format, {&tools(), in_reasoning});
  std::vector<Piece> pieces;
  for (size_t at = 0; at < output.size(); at += step) parser->push(output.substr(at, step), pieces);
  parser->finish(pieces);
  std::string out, arguments;
  size_t kind = std::variant_npos, end = 0;
  for (const Piece& piece : pieces) {
    const auto* text = std::get_if<formats::Text>(&piece);
    const auto* thought = std::get_if<formats::Reasoning>(&piece);
    const auto* part = std::get_if<formats::CallArguments>(&piece);
    const size_t begin = text != nullptr ? text->begin : thought != nullptr ? thought->begin : 0;
    const bool is_joined = kind == piece.index() && (part != nullptr || begin == end);
    if (!is_joined) out += "|" + std::to_string(piece.index()) + "@" + std::to_string(begin) + ":";
    kind = piece.index();
    if (text != nullptr) {
      expect(output.substr(begin, text->text.size()) == text->text, "text that was not written there");
      out += text->text;
      end = begin + text->text.size();
    } else if (thought != nullptr) {
      expect(output.substr(begin, thought->text.size()) == thought->text,
             "reasoning that was not written there");
      out += thought->text;
      end = begin + thought->text.size();
    } else if (part != nullptr) {
      out += part->json;
      arguments += part->json;
    } else if (std::holds_alternative<formats::CallBegin>(piece)) {
      arguments.clear();
    } else {
      // The reader of JSON is strict about UTF-8, and parsers pass on what they are fed.
      bool is_ascii = true;
      for (const char c : arguments) is_ascii = is_ascii && static_cast<unsigned char>(c) < 0x80;
      expect(!is_ascii || Json::parse(arguments, nullptr, false).is_object(), "arguments that are no object");
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  for (size_t i = 0; i < formats::kToolFormats.size(); ++i) {
    for (const formats::Opener& opener : formats::kToolFormats[i]->openers) {
      std::string text = {static_cast<char>(i), static_cast<char>(i)};
      out.push_back(text + "a " + std::string(opener.marker) +
                    "{\"name\": \"f\", \"arguments\": {\"a\": \"b\\d\"}}" + std::string(opener.closer));
      out.push_back(text + std::string(opener.marker) + "f>{\"a\": \"b\"}" + std::string(opener.closer));
    }
  }
  return out;
}

std::vector<std::string> words() {
  std::vector<std::string> out = {"<function=f>", "<parameter=a>",    "</parameter>",   "</function>",
                                  "f(a='x')",     "call:f{",          "\"a\": \"",      "\\ud83d",
                                  "\\d",          "{\"name\": \"f\"", "to=functions.f", "<think>",
                                  "</think>"};
  for (const formats::ToolFormat* format : formats::kToolFormats) {
    for (const std::string_view token : format->spelled) out.emplace_back(token);
  }
  return out;
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size < 2) return 0;
  const fuzz::Exact input(data + 2, size - 2);
  const formats::OutputFormat format = fuzz::format_of(data[0], data[1]);
  const bool in_reasoning = data[1] >= 128;
  const std::string whole = fuzz::said(format, in_reasoning, input.text(), size);
  fuzz::expect(whole == fuzz::said(format, in_reasoning, input.text(), 1), "another cut, another result");
  fuzz::expect(whole == fuzz::said(format, in_reasoning, input.text(), 7), "another cut, another result");
  return 0;
}
