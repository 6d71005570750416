// Real chat templates (third-party files that tools/fetch_test_data.py fetches): which formats are found in
// them, and that the calls which a template writes are read as the calls they were.
#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/error.h"
#include "formats/list.h"
#include "output.h"
#include "text/chat_template.h"
#include "unit/text/golden_files.h"

namespace penstock::formats {
namespace {

using base::Json;
using text::testing::data_dir;
using text::testing::fetched_models_dir;
using text::testing::read_json;

constexpr int64_t kNow = 1'783'177'567;

/// What a template makes of the question and one assistant message with `count` calls; empty if it refuses.
struct Rendered {
  std::string prompt, whole;
};

Json assistant(const Json& calls, size_t count, bool as_text, const std::string& content) {
  Json message = {{"role", "assistant"}, {"content", content}, {"reasoning_content", "I think so"}};
  for (size_t i = 0; i < count; ++i) {
    Json call = calls[i];
    Json& arguments = call["function"]["arguments"];
    if (as_text) arguments = arguments.dump();
    message["tool_calls"].push_back(std::move(call));
  }
  return message;
}

std::optional<Rendered> render(const text::ChatTemplate& chat_template, const Json& tools,
                               const Json& message) {
  Json context = {{"messages", {{{"role", "user"}, {"content", "Weather?"}}}}, {"tools", tools}};
  try {
    Rendered out;
    context["add_generation_prompt"] = true;
    out.prompt = chat_template.render(context, kNow);
    context["add_generation_prompt"] = false;
    context["messages"].push_back(message);
    out.whole = chat_template.render(context, kNow);
    return out;
  } catch (const base::Error& error) {
    ADD_FAILURE() << error.what();
    return std::nullopt;
  }
}

/// What the model of a template writes, from the first byte in which conversation and prompt differ. A marker
/// that they begin alike (<think> and </think>) is taken whole.
std::string output_of(const Rendered& rendered, const OutputFormat& format) {
  const std::string& whole = rendered.whole;
  size_t at = static_cast<size_t>(
      std::mismatch(rendered.prompt.begin(), rendered.prompt.end(), whole.begin(), whole.end()).second -
      whole.begin());
  if (at == rendered.prompt.size()) return whole.substr(at);
  std::vector<std::string_view> markers;
  if (format.reasoning != nullptr) markers.push_back(format.reasoning->open);
  for (const Opener& opener : format.tools->openers) markers.push_back(opener.marker);
  for (const std::string_view marker : markers) {
    const size_t begin = whole.rfind(marker, at);
    if (begin != std::string::npos && begin + marker.size() >= at) return whole.substr(begin);
    // The prompt has reasoning that is empty where the conversation has some.
    if (begin != std::string::npos && format.reasoning != nullptr && marker == format.reasoning->open &&
        whole.find_first_not_of(" \n", begin + marker.size()) >= at) {
      return whole.substr(begin);
    }
  }
  return whole.substr(at);
}

/// The calls of an outcome as {"name", "arguments"}.
Json calls_of(const Json& outcome) {
  Json out = Json::array();
  for (const Json& piece : outcome) {
    if (piece.contains("call"))
      out.push_back({{"name", piece["call"]}, {"arguments", piece.value("arguments", Json())}});
  }
  return out;
}

/// Templates may sort the members of an object.
nlohmann::json unordered(const Json& json) {
  return nlohmann::json::parse(json.dump());
}

Json wanted(const Json& calls, size_t count) {
  Json out = Json::array();
  for (size_t i = 0; i < count; ++i) {
    out.push_back({{"name", calls[i]["function"]["name"]}, {"arguments", calls[i]["function"]["arguments"]}});
  }
  return out;
}

/// The first way to write the calls that the template takes and that shows them; otherwise nothing.
bool returns_calls(const std::string& source, const OutputFormat& format, const Json& row, const Json& file) {
  const text::ChatTemplate chat_template(source,
                                         {.bos = "<s>", .eos = "</s>", .unk = "<unk>", .pad = "<pad>"});
  const size_t count = row.value("calls", size_t{2});
  const Json message =
      assistant(file["calls"], count, row.value("arguments_as_text", false), row.value("content", ""));
  const std::optional<Rendered> rendered = render(chat_template, file["tools"], message);
  if (!rendered.has_value()) {
    return false;
  }
  const std::string output = output_of(*rendered, format);
  // A conversation may leave out the reasoning that the prompt begins.
  const bool in_reasoning = format.opens_reasoning(rendered->prompt) &&
                            !output.starts_with(format.reasoning->open) &&
                            output.find(format.reasoning->close) != std::string::npos;
  const Json got = testing::outcome(format, {&file["tools"], in_reasoning}, output);
  EXPECT_EQ(unordered(calls_of(got)), unordered(wanted(file["calls"], count)))
      << got.dump(1) << "\nfrom " << output;
  if (row.value("thinks", false)) {
    EXPECT_EQ(got[0].value("reasoning", ""), "I think so") << got.dump(1) << "\nfrom " << output;
  }
  return true;
}

TEST(Templates, FormatsAreFoundAndCallsComeBack) {
  const Json file = read_json(data_dir() / "template_formats.json");
  const std::filesystem::path folder = fetched_models_dir() / "templates";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "run tools/fetch_test_data.py";
  size_t seen = 0, returned = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string name = entry.path().stem().string();
    SCOPED_TRACE(name);
    ASSERT_TRUE(file["templates"].contains(name)) << "not in template_formats.json";
    const Json& row = file["templates"][name];
    const std::string source = text::testing::read_file(entry.path());
    const OutputFormat format = detect(source);
    EXPECT_EQ(format.tool_name(), row["tools"].get<std::string>());
    EXPECT_EQ(format.reasoning_name(), row["reasoning"].get<std::string>());
    ++seen;
    if (row.contains("shows_no_calls") || format.tools == nullptr) continue;
    returned += returns_calls(source, format, row, file);
  }
  EXPECT_EQ(seen, file["templates"].size());
  std::printf("%zu templates, of %zu the calls came back\n", seen, returned);
}

}  // namespace
}  // namespace penstock::formats
