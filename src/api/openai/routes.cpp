#include "api/openai/routes.h"

#include <memory>
#include <random>
#include <string>

#include "api/openai/answer.h"
#include "api/openai/decode.h"
#include "api/openai/errors.h"
#include "api/trace.h"
#include "base/error.h"
#include "base/unix_time.h"

namespace penstock::api::openai {
namespace {

using base::Json;

std::string make_id(const char* prefix) {
  static thread_local std::mt19937_64 random(std::random_device{}());
  constexpr char kHex[] = "0123456789abcdef";
  std::string id = prefix;
  for (int i = 0; i < 24; ++i) id += kHex[random() & 15];
  return id;
}

/// Field names for a header: those that are plain words, joined; at most a few hundred bytes.
std::string header_list(const std::vector<std::string>& names) {
  constexpr size_t kMaxBytes = 400;
  std::string joined;
  for (const std::string& name : names) {
    std::string clean;
    for (const char c : name.substr(0, 64)) clean += c > ' ' && c < 127 && c != ',' ? c : '?';
    if (joined.size() + clean.size() > kMaxBytes) return joined + ", ...";
    joined += (joined.empty() ? "" : ", ") + clean;
  }
  return joined;
}

class Surface {
 public:
  Surface(serve::Service& service, Ignored& ignored, RouteOptions options)
      : service_(service), ignored_(ignored), options_(std::move(options)) {}

  void chat(const http::Request& request, chat::Origin origin, std::shared_ptr<http::Exchange> exchange) {
    Decoded decoded = decode_chat(parse_body(request));
    decoded.request.origin = std::move(origin);
    auto encoder = make_chat_encoder(decoded.request.logprobs);
    start(std::move(decoded), std::move(encoder), "chatcmpl-", std::move(exchange));
  }

  void completion(const http::Request& request, chat::Origin origin,
                  std::shared_ptr<http::Exchange> exchange) {
    Decoded decoded = decode_completion(parse_body(request));
    decoded.request.origin = std::move(origin);
    const auto prompts = std::get<chat::Completion>(decoded.request.input).prompts.size();
    const auto choices = static_cast<int32_t>(prompts) * decoded.request.n;
    auto encoder = make_completion_encoder(decoded.request.logprobs, choices);
    start(std::move(decoded), std::move(encoder), "cmpl-", std::move(exchange));
  }

  void models(std::shared_ptr<http::Exchange> exchange) const {
    Json body = {{"object", "list"}, {"data", Json::array()}};
    for (const serve::ModelCard& card : service_.models()) body["data"].push_back(model_json(card));
    exchange->respond(http::json_response(200, body));
  }

  void model(const http::Request& request, std::shared_ptr<http::Exchange> exchange) const {
    exchange->respond(http::json_response(200, model_json(service_.model(request.params.at("id")))));
  }

 private:
  /// What is not known before a model was loaded once is null.
  static Json model_json(const serve::ModelCard& card) {
    const bool is_known = card.context_length > 0;
    const auto known = [&](auto value) { return is_known ? Json(std::move(value)) : Json(); };
    Json capabilities = {{"chat_completion", known(card.has_template)}, {"completion", true}};
    return {{"id", card.id},
            {"object", "model"},
            {"created", card.created},
            {"owned_by", "penstock"},
            {"loaded", card.loaded},
            {"context_window", known(card.context_length)},
            {"max_model_len", known(card.context_length)},
            {"capabilities", std::move(capabilities)},
            {"aliases", card.names},
            {"penstock",
             {{"family", known(card.family)},
              {"format", known(card.format)},
              {"executor", known(card.executor)},
              {"loading", card.loading},
              {"pinned", card.pinned},
              {"in_use", card.leases}}}};
  }

  void start(Decoded decoded, std::unique_ptr<Encoder> encoder, const char* id_prefix,
             std::shared_ptr<http::Exchange> exchange) {
    AnswerOptions options;
    options.head = {make_id(id_prefix), base::unix_seconds(), "", decoded.include_usage,
                    std::move(decoded.notes)};
    decoded.request.id = options.head.id;
    options.stream = decoded.stream;
    options.stream_options = options_.stream;
    options.headers.push_back({"x-request-id", decoded.request.origin.request_id});
    if (!decoded.ignored.empty()) {
      ignored_.fields += decoded.ignored.size();
      options.headers.push_back({"x-penstock-ignored", header_list(decoded.ignored)});
    }
    auto answer = std::make_shared<Answer>(exchange, std::move(encoder), std::move(options));
    const auto generation = service_.submit(std::move(decoded.request), std::move(answer));
    exchange->on_disconnect([generation] { generation->cancel(serve::Generation::Why::kDisconnected); });
  }

  serve::Service& service_;
  Ignored& ignored_;
  const RouteOptions options_;
};

}  // namespace

void add_routes(http::Router& router, serve::Service& service, Ignored& ignored, RouteOptions options) {
  const auto surface = std::make_shared<Surface>(service, ignored, std::move(options));
  using Exchange = std::shared_ptr<http::Exchange>;
  // The transport knows an error's code and not its word, so errors are answered here.
  const auto guarded = [](auto handle) {
    return [handle](const http::Request& request, const Exchange& exchange) {
      try {
        handle(request, exchange);
      } catch (const base::Error& error) {
        exchange->respond(error_response(error));
      }
    };
  };
  // A refusal carries the id under which it was logged.
  const auto traced = [&service](const char* name, auto handle) {
    return [&service, name, handle](const http::Request& request, const Exchange& exchange) {
      const chat::Origin origin = origin_of(request, name);
      try {
        service.require_room(origin);
        handle(request, origin, exchange);
      } catch (const base::Error& error) {
        http::Response response = error_response(error);
        response.headers.push_back({"x-request-id", origin.request_id});
        exchange->respond(std::move(response));
      }
    };
  };
  router.add("POST", "/v1/chat/completions",
             traced("openai_chat", [surface](const auto& request, auto origin, const Exchange& exchange) {
               surface->chat(request, std::move(origin), exchange);
             }));
  router.add(
      "POST", "/v1/completions",
      traced("openai_completions", [surface](const auto& request, auto origin, const Exchange& exchange) {
        surface->completion(request, std::move(origin), exchange);
      }));
  router.add("GET", "/v1/models",
             guarded([surface](const auto&, const Exchange& exchange) { surface->models(exchange); }));
  router.add("GET", "/v1/models/{id...}", guarded([surface](const auto& request, const Exchange& exchange) {
               surface->model(request, exchange);
             }));
}

}  // namespace penstock::api::openai
