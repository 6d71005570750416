#include "api/openai/encoding_routes.h"

#include <memory>
#include <utility>

#include "api/body.h"
#include "api/openai/encoding_decode.h"
#include "api/openai/encoding_encode.h"
#include "api/openai/errors.h"

namespace penstock::api::openai {
namespace {

/// Submits, answers with what `encode` makes of the vectors, and cancels with the client's connection.
template <class Encode>
void encode_texts(serve::Service& service, chat::EncodeRequest request, std::vector<http::Header> headers,
                  const ExchangePtr& exchange, Encode encode) {
  auto answer = [exchange, headers = std::move(headers),
                 encode = std::move(encode)](std::variant<chat::EncodeAnswer, base::Error> result) {
    http::Response response;
    if (const auto* error = std::get_if<base::Error>(&result)) {
      response = error_response(*error);
    } else {
      response.content_type = "application/json";
      response.body = encode(std::get<chat::EncodeAnswer>(result));
      response.headers.push_back(
          {"x-penstock-executor", std::get<chat::EncodeAnswer>(result).receipt.executor});
    }
    response.headers.insert(response.headers.end(), headers.begin(), headers.end());
    exchange->respond(std::move(response));
  };
  const auto encoding = service.encode(std::move(request), std::move(answer));
  exchange->on_disconnect([encoding] { encoding->cancel(serve::RequestWork::Why::kDisconnected); });
}

}  // namespace

void add_encoding_routes(Surface& surface, serve::Service& service, Ignored& ignored) {
  surface.add_generating(
      "POST", "/v1/embeddings", "openai_embeddings",
      [&service, &ignored](const http::Request& request, chat::Origin origin, const ExchangePtr& exchange) {
        DecodedEmbeddings decoded = decode_embeddings(parse_body(request));
        auto headers = answer_headers(origin, decoded.ignored, ignored);
        decoded.request.origin = std::move(origin);
        encode_texts(service, std::move(decoded.request), std::move(headers), exchange,
                     [base64 = decoded.base64](const chat::EncodeAnswer& answer) {
                       return embeddings_body(answer, base64);
                     });
      });
  surface.add_generating(
      "POST", "/v1/rerank", "openai_rerank",
      [&service, &ignored](const http::Request& request, chat::Origin origin, const ExchangePtr& exchange) {
        DecodedRerank decoded = decode_rerank(parse_body(request));
        auto headers = answer_headers(origin, decoded.ignored, ignored);
        decoded.request.origin = std::move(origin);
        decoded.request.id = make_id("rerank-");
        chat::EncodeRequest texts = std::move(decoded.request);
        const std::string id = texts.id;
        encode_texts(service, std::move(texts), std::move(headers), exchange,
                     [id, asked = std::move(decoded)](const chat::EncodeAnswer& answer) {
                       return rerank_json(answer, id, asked)
                           .dump(-1, ' ', false, base::Json::error_handler_t::replace);
                     });
      });
}

}  // namespace penstock::api::openai
