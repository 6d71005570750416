#include "api/openai/encoding_encode.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include <fmt/format.h>

#include "base/base64.h"

namespace penstock::api::openai {
namespace {

using base::Json;

Json text_usage_json(const chat::Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens}, {"total_tokens", usage.prompt_tokens}};
}

/// The shortest numbers that read back as the same float32, which the JSON library does not write.
void append_numbers(std::string& out, std::span<const float> values) {
  out += '[';
  for (const float value : values) fmt::format_to(std::back_inserter(out), "{},", value);
  out.back() = ']';
}

}  // namespace

std::string embeddings_body(const chat::EncodeAnswer& answer, bool base64) {
  static_assert(std::endian::native == std::endian::little);
  const auto width = static_cast<size_t>(answer.width);
  std::string out = R"({"object":"list","data":[)";
  for (size_t i = 0; i * width < answer.values.size(); ++i) {
    const auto values = std::span(answer.values).subspan(i * width, width);
    fmt::format_to(std::back_inserter(out), R"({}{{"object":"embedding","index":{},"embedding":)",
                   i == 0 ? "" : ",", i);
    if (base64)
      out += '"' + base::base64(std::as_bytes(values)) + '"';
    else
      append_numbers(out, values);
    out += '}';
  }
  const Json model = answer.model;
  out += R"(],"model":)" + model.dump(-1, ' ', false, Json::error_handler_t::replace) + R"(,"usage":)" +
         text_usage_json(answer.usage).dump() + "}";
  return out;
}

Json rerank_json(const chat::EncodeAnswer& answer, const std::string& id, const DecodedRerank& asked) {
  std::vector<size_t> order(answer.values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return answer.values[a] > answer.values[b]; });
  order.resize(std::min(order.size(), asked.top_n));
  Json results = Json::array();
  for (const size_t index : order) {
    Json result = {{"index", index}, {"relevance_score", answer.values[index]}};
    if (!asked.documents.empty()) result["document"] = asked.documents[index];
    results.push_back(std::move(result));
  }
  return {{"id", id},
          {"object", "list"},
          {"model", answer.model},
          {"results", std::move(results)},
          {"usage", text_usage_json(answer.usage)}};
}

}  // namespace penstock::api::openai
