// Bodies of /v1/embeddings and /v1/rerank, and what is answered.
#include <cstring>

#include <gtest/gtest.h>

#include "api/openai/encoding_decode.h"
#include "api/openai/encoding_encode.h"
#include "api/openai/errors.h"
#include "base/error.h"

namespace penstock::api::openai {
namespace {

using base::Json;
using Ids = std::vector<int32_t>;

Json parse(const std::string& text) {
  return base::parse_json(text, "the test");
}

template <class Decode>
std::string field_at_fault(const Decode& decode, const std::string& body) {
  try {
    decode(parse(body));
  } catch (const base::Error& error) {
    EXPECT_EQ(error_response(error).status, 400);
    return error.param();
  }
  return "none";
}

TEST(DecodeEmbeddings, EveryFormOfInput) {
  const auto texts = [](const std::string& input) {
    return std::get<chat::Embed>(decode_embeddings(parse(R"({"input": )" + input + "}")).request.input).texts;
  };
  EXPECT_EQ(std::get<std::string>(texts(R"("one")")[0]), "one");
  EXPECT_EQ(texts(R"(["one", "two"])").size(), 2u);
  EXPECT_EQ(texts("[1, 2, 3]").size(), 1u);
  EXPECT_EQ(std::get<Ids>(texts("[1, 2, 3]")[0]), (Ids{1, 2, 3}));
  EXPECT_EQ(std::get<Ids>(texts("[[1, 2], [3]]")[1]), (Ids{3}));
  EXPECT_EQ(texts(R"(["one", [4]])").size(), 2u);
  const auto fault = [](const std::string& input) {
    return field_at_fault(decode_embeddings, R"({"input": )" + input + "}");
  };
  for (const char* input : {"null", "\"\"", "[]", "[\"\"]", "[[]]", "3", "[1.5]", "[-1]", "{}", "[null]", "true"})
    EXPECT_EQ(fault(input), "input") << input;
  EXPECT_EQ(field_at_fault(decode_embeddings, "{}"), "input");
  std::string many = "[\"x\"";
  for (int i = 0; i < 2048; ++i) many += ",\"x\"";
  EXPECT_EQ(fault(many + "]"), "input");
}

TEST(DecodeEmbeddings, Fields) {
  const DecodedEmbeddings decoded = decode_embeddings(
      parse(R"({"model": "m", "input": "x", "encoding_format": "base64", "dimensions": 8, "user": "u",
                "truncate": true, "timeout_ms": 50, "nobody_knows": 1})"));
  EXPECT_EQ(decoded.request.model, "m");
  EXPECT_TRUE(decoded.base64);
  EXPECT_EQ(std::get<chat::Embed>(decoded.request.input).dimensions, 8);
  EXPECT_TRUE(decoded.request.truncate);
  EXPECT_EQ(decoded.request.timeout_ms, 50);
  EXPECT_EQ(decoded.ignored, (std::vector<std::string>{"nobody_knows"}));
  const auto fault = [](const std::string& field) {
    return field_at_fault(decode_embeddings, R"({"input": "x", )" + field + "}");
  };
  EXPECT_EQ(fault(R"("encoding_format": "int8")"), "encoding_format");
  EXPECT_EQ(fault(R"("dimensions": 0)"), "dimensions");
  EXPECT_EQ(fault(R"("dimensions": "8")"), "dimensions");
  EXPECT_EQ(fault(R"("truncate": "END")"), "truncate");
  EXPECT_EQ(fault(R"("truncate_prompt_tokens": 8)"), "truncate_prompt_tokens");
}

TEST(DecodeRerank, Fields) {
  const DecodedRerank decoded = decode_rerank(parse(
      R"({"query": "q", "documents": ["a", {"text": "b", "more": 1}], "top_n": 9, "return_documents": true})"));
  const auto& rank = std::get<chat::Rank>(decoded.request.input);
  EXPECT_EQ(rank.query, "q");
  EXPECT_EQ(rank.documents, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(decoded.top_n, 2u);
  EXPECT_EQ(decoded.documents[1], (Json{{"text", "b"}}));
  EXPECT_EQ(decode_rerank(parse(R"({"query": "q", "documents": ["a"]})")).documents.size(), 0u);
  EXPECT_EQ(field_at_fault(decode_rerank, R"({"documents": ["a"]})"), "query");
  EXPECT_EQ(field_at_fault(decode_rerank, R"({"query": "q"})"), "documents");
  EXPECT_EQ(field_at_fault(decode_rerank, R"({"query": "q", "documents": []})"), "documents");
  EXPECT_EQ(field_at_fault(decode_rerank, R"({"query": "q", "documents": [{"title": "x"}]})"), "documents");
  EXPECT_EQ(field_at_fault(decode_rerank, R"({"query": "q", "documents": ["a"], "top_n": 0})"), "top_n");
}

chat::EncodeAnswer answer_of(std::vector<float> values, int32_t width) {
  chat::EncodeAnswer answer;
  answer.model = "m\"1";
  answer.width = width;
  answer.values = std::move(values);
  answer.usage.prompt_tokens = 7;
  return answer;
}

TEST(EncodeEmbeddings, NumbersReadBackAsTheSameFloats) {
  const std::vector<float> values = {0.1f, -1e-20f, 3.0f, 0.33333334f};
  const Json json = parse(embeddings_body(answer_of(values, 2), false));
  EXPECT_EQ(json["object"], "list");
  EXPECT_EQ(json["model"], "m\"1");
  EXPECT_EQ(json["usage"], (Json{{"prompt_tokens", 7}, {"total_tokens", 7}}));
  ASSERT_EQ(json["data"].size(), 2u);
  for (size_t i = 0; i < 4; ++i) {
    const Json& entry = json["data"][i / 2];
    EXPECT_EQ(entry["index"], i / 2);
    EXPECT_EQ(entry["object"], "embedding");
    EXPECT_EQ(entry["embedding"][i % 2].get<float>(), values[i]);
  }
}

TEST(EncodeEmbeddings, Base64IsFloat32InLittleEndianOrder) {
  const Json json = parse(embeddings_body(answer_of({1.0f, -2.0f}, 2), true));
  EXPECT_EQ(json["data"][0]["embedding"], "AACAPwAAAMA=");
}

TEST(EncodeRerank, TheBestFirstAndNoMoreThanAsked) {
  DecodedRerank asked;
  asked.top_n = 3;
  const Json json = rerank_json(answer_of({0.25f, 0.5f, 0.25f, 0.125f}, 1), "rerank-1", asked);
  ASSERT_EQ(json["results"].size(), 3u);
  EXPECT_EQ(json["results"][0], (Json{{"index", 1}, {"relevance_score", 0.5}}));
  EXPECT_EQ(json["results"][1]["index"], 0);
  EXPECT_EQ(json["results"][2]["index"], 2);
  EXPECT_EQ(json["id"], "rerank-1");
}

TEST(Errors, WhatTheNamedModelCannotDoIsNotImplemented) {
  const base::Error error(base::Code::kUnsupported, "[x.y] expected a model that embeds; got m", "model");
  EXPECT_EQ(error_response(error).status, 501);
  EXPECT_EQ(error_envelope(error)["error"]["code"], "not_implemented");
  EXPECT_EQ(error_response(base::Error(base::Code::kUnsupported, "[x.y] no z", "z")).status, 400);
}

}  // namespace
}  // namespace penstock::api::openai
