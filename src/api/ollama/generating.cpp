// /api/generate and /api/chat, and loading and unloading by requests without a prompt.
#include <utility>

#include "api/body.h"
#include "api/ollama/answer.h"
#include "api/ollama/decode.h"
#include "api/ollama/errors.h"
#include "api/ollama/keep_alive.h"
#include "api/ollama/names.h"
#include "api/ollama/routes.h"
#include "api/ollama/worker.h"

namespace penstock::api::ollama {
namespace {

using base::Code;
using base::Error;
using base::Json;

/// A model may be removed while it answers: then there is nothing to keep.
void keep(const serve::Service& service, const std::string& id, pool::KeepLoaded how_long) {
  try {
    service.pool().keep(id, how_long);
  } catch (const Error& error) {
    if (error.code() != Code::kNotFound) throw;
  }
}

void require_running(const serve::Service& service) {
  if (service.state() == serve::State::kRunning) return;
  throw Error(Code::kUnavailable, "[api.load] expected a running server; got one that is " +
                                      std::string(serve::name(service.state())));
}

void load(const Context& context, const std::string& id, const Decoded& decoded, Encoder encoder,
          std::vector<http::Header> headers, const ExchangePtr& exchange) {
  require_running(context.service);
  const bool unloads = decoded.keep == pool::KeepLoaded(0);
  const auto answer = [exchange, encoder, unloads,
                       headers = std::move(headers)](const std::exception_ptr& why) {
    http::Response response =
        why != nullptr ? error_response(error_of(why))
                       : http::json_response(200, encoder.idle(now_text(), unloads ? "unload" : "load"));
    response.headers = headers;
    exchange->respond(std::move(response));
  };
  if (unloads) return context.service.pool().unload(id, answer);
  context.service.pool().load(
      id, std::nullopt,
      [&service = context.service, id, answer, how_long = decoded.keep](const std::exception_ptr& why) {
        if (why == nullptr && how_long) keep(service, id, *how_long);
        answer(why);
      });
}

void handle(const Context& context, Endpoint endpoint, const http::Request& request, chat::Origin origin,
            const ExchangePtr& exchange) {
  const Json body = parse_body(request);
  const std::string model = read_model(Reader(body));
  const Named named = resolve(context.service, model);
  const library::Preset preset = context.library.preset(named.name);
  Decoded decoded = endpoint == Endpoint::kChat ? decode_chat(body, preset) : decode_generate(body, preset);
  auto headers = answer_headers(origin, decoded.ignored, context.ignored);
  Encoder encoder(endpoint, model);
  if (decoded.is_load)
    return load(context, named.id, decoded, std::move(encoder), std::move(headers), exchange);
  decoded.request.id = make_id("ollama-");
  decoded.request.model = named.request;
  decoded.request.origin = std::move(origin);
  AnswerOptions options;
  options.stream = decoded.stream;
  options.shows_reasoning = decoded.shows_reasoning;
  options.logprobs = decoded.request.logprobs;
  options.headers = std::move(headers);
  if (decoded.keep) {
    // From when its lease is held: earlier, a time of 0 would unload it under the request.
    options.on_started = [&service = context.service, id = named.id, how_long = *decoded.keep] {
      keep(service, id, how_long);
    };
  }
  auto answer = std::make_shared<Answer>(exchange, std::move(encoder), std::move(options));
  submit(context.service, std::move(decoded.request), std::move(answer), exchange);
}

}  // namespace

void add_generating_routes(Surface& surface, const ContextPtr& context) {
  surface.add_generating("POST", "/api/generate", "ollama_generate",
                         [context](const auto& request, auto origin, const ExchangePtr& exchange) {
                           handle(*context, Endpoint::kGenerate, request, std::move(origin), exchange);
                         });
  surface.add_generating("POST", "/api/chat", "ollama_chat",
                         [context](const auto& request, auto origin, const ExchangePtr& exchange) {
                           handle(*context, Endpoint::kChat, request, std::move(origin), exchange);
                         });
}

}  // namespace penstock::api::ollama
