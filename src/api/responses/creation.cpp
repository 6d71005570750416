#include "api/responses/creation.h"

#include <iterator>
#include <utility>

#include "api/openai/errors.h"
#include "base/error.h"
#include "base/unix_time.h"
#include "base/utf8.h"

namespace penstock::api::responses {
namespace {

using base::Code;
using base::Error;
using base::Json;

constexpr const char* kIdPrefix = "resp_";
constexpr const char* kUnstoredPrefix = "resp_unstored_";

std::map<std::string, FileText> texts_of(std::vector<jobs::FileBody> bodies) {
  std::map<std::string, FileText> texts;
  for (jobs::FileBody& body : bodies) {
    if (!base::is_utf8(body.bytes)) {
      throw Error(Code::kUnsupported,
                  "[responses.create] expected a file of UTF-8 text, which is all that is read here; got " +
                      body.file.name,
                  "input");
    }
    texts[body.file.id] = {std::move(body.file.name), std::move(body.bytes)};
  }
  return texts;
}

}  // namespace

bool is_unstored_id(const std::string& id) {
  return id.starts_with(kUnstoredPrefix);
}

Creation::Creation(std::shared_ptr<Parts> parts, Create create, chat::Origin origin, ExchangePtr exchange)
    : parts_(std::move(parts)),
      request_id_(origin.request_id),
      create_(std::move(create)),
      exchange_(std::move(exchange)) {
  create_.request.origin = std::move(origin);
  create_.request.id = make_id(create_.store ? kIdPrefix : kUnstoredPrefix);
}

void Creation::start() {
  if (is_unstored_id(create_.previous_id)) {
    throw Error(Code::kInvalidRequest,
                "[responses.create] expected a previous response that was stored; got one of a request with "
                "store false: send its items as input",
                "previous_response_id");
  }
  model_ = parts_->service.model(create_.request.model).id;  // an unknown one is refused before all else
  look_up();
}

void Creation::look_up() {
  const auto references = references_in(create_.input);
  if (create_.previous_id.empty() && references.empty()) return with_items({});
  parts_->store.history(create_.previous_id, references,
                        [self = shared_from_this()](std::variant<serve::History, Error> found) {
                          self->guarded([&] {
                            if (const auto* error = std::get_if<Error>(&found)) throw *error;
                            self->with_history(std::move(std::get<serve::History>(found)));
                          });
                        });
}

void Creation::with_history(serve::History history) {
  create_.input = resolved(std::move(create_.input), history.references);
  with_items(std::move(history.items));
}

void Creation::with_items(std::vector<Json> items) {
  items.insert(items.end(), create_.input.begin(), create_.input.end());
  const auto files = files_in(items);
  if (files.empty()) return run(std::move(items), {});
  parts_->files.read(files, [self = shared_from_this(), items = std::move(items)](
                                std::variant<std::vector<jobs::FileBody>, Error> read) {
    self->guarded([&] {
      if (const auto* error = std::get_if<Error>(&read)) throw *error;
      self->run(items, texts_of(std::get<std::vector<jobs::FileBody>>(std::move(read))));
    });
  });
}

void Creation::run(std::vector<Json> items, const std::map<std::string, FileText>& files) {
  auto& messages = create_.conversation.messages;
  auto said = to_messages(items, files);
  messages.insert(messages.end(), std::make_move_iterator(said.begin()), std::make_move_iterator(said.end()));
  create_.request.input = std::move(create_.conversation);
  const auto run = make_run();
  if (create_.background) return submit_background(run);
  submit(parts_->service, std::move(create_.request), run, exchange_);
}

std::shared_ptr<Run> Creation::make_run() {
  RunOptions options;
  options.id = create_.request.id;
  options.created = base::unix_seconds();
  options.model = model_;
  options.settings = std::move(create_.settings);
  options.names = std::move(create_.names);
  options.input = std::move(create_.input);
  options.previous_id = create_.previous_id;
  options.output = {create_.request.logprobs, create_.carries_reasoning};
  options.stream = create_.stream;
  options.store = create_.store;
  options.background = create_.background;
  options.stream_options = parts_->stream;
  options.headers = answer_headers(create_.request.origin, create_.ignored, parts_->ignored);
  return std::make_shared<Run>(std::move(options), exchange_, parts_->store);
}

/// Stored first: what the client is told of is there after a crash. Refused after all, it goes again.
void Creation::submit_background(const std::shared_ptr<Run>& run) {
  parts_->live.add(run);
  run->on_end([parts = parts_, id = run->id()](const Json&) { parts->live.remove(id); });
  parts_->store.save(run->record(), [self = shared_from_this(), run](const std::optional<Error>& error) {
    self->guarded([&] {
      if (error) throw *error;
      try {
        self->parts_->service.submit(std::move(self->create_.request), run);
      } catch (const Error&) {
        self->parts_->live.remove(run->id());
        self->parts_->store.erase(run->id(), [](const auto&) {});
        throw;
      }
      run->accept();
    });
  });
}

/// A step on another thread than the route's, which answers errors itself.
void Creation::guarded(const std::function<void()>& step) {
  try {
    step();
  } catch (const Error& error) {
    http::Response response = openai::error_response(error);
    response.headers.push_back({"x-request-id", request_id_});
    exchange_->respond(std::move(response));
  }
}

}  // namespace penstock::api::responses
