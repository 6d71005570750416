// What changes the models of the server: /api/pull, /api/create, /api/copy, /api/delete.
#include "api/ollama/changes.h"

#include <array>
#include <atomic>
#include <chrono>
#include <utility>

#include "api/body.h"
#include "api/ollama/decode.h"
#include "api/ollama/errors.h"
#include "api/ollama/fields.h"
#include "api/ollama/names.h"
#include "api/ollama/routes.h"
#include "api/ollama/worker.h"
#include "api/trace.h"
#include "http/sse.h"

namespace penstock::api::ollama {
namespace {

using base::Code;
using base::Error;
using base::Json;

/// A long task whose steps its client may watch.
class Job {
 public:
  Job(ExchangePtr exchange, bool streams, std::vector<http::Header> headers)
      : exchange_(std::move(exchange)), streams_(streams), headers_(std::move(headers)) {
    exchange_->on_disconnect([cancel = cancel_] { *cancel = true; });
  }

  const std::atomic<bool>& cancelled() const { return *cancel_; }

  void status(const Json& line) const {
    if (stream_) stream_->write(http::ndjson_line(line.dump(-1, ' ', false, Json::error_handler_t::replace)));
  }

  void run(const std::function<void()>& work) {
    if (streams_) {
      http::Response head = http::ndjson_head();
      head.headers.insert(head.headers.end(), headers_.begin(), headers_.end());
      stream_ = exchange_->start_stream(std::move(head), http::ndjson_options());
    }
    try {
      work();
      end(200, {{"status", "success"}});
    } catch (const std::exception&) {
      const Error error = error_of(std::current_exception());
      end(error_response(error).status, error_json(error));
    }
  }

 private:
  void end(int status_code, const Json& line) const {
    if (!stream_) {
      http::Response response = http::json_response(status_code, line);
      response.headers = headers_;
      return exchange_->respond(std::move(response));
    }
    status(line);
    stream_->finish();
  }

  const ExchangePtr exchange_;
  const bool streams_;
  const std::vector<http::Header> headers_;
  const std::shared_ptr<std::atomic<bool>> cancel_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<http::Stream> stream_;
};

/// Lines of progress, some ten a second and the last of each file.
class ProgressLines {
 public:
  explicit ProgressLines(const Job& job) : job_(job) {}

  void operator()(const store::Progress& progress) {
    const auto now = std::chrono::steady_clock::now();
    const bool is_end = progress.done_bytes >= progress.total_bytes;
    const bool is_new = progress.what != file_;
    if (!is_new && !is_end && now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    file_ = progress.what;
    Json line = {{"status", "pulling " + progress.what}};
    if (!progress.sha256.empty()) line["digest"] = "sha256:" + progress.sha256;
    if (progress.total_bytes > 0) {
      line["total"] = progress.total_bytes;
      line["completed"] = progress.done_bytes;
    }
    job_.status(line);
  }

 private:
  const Job& job_;
  std::string file_;
  std::chrono::steady_clock::time_point last_;
};

void pull(const ContextPtr& context, const http::Request& request, const ExchangePtr& exchange) {
  require_change(*context, request);
  const Json body = parse_body(request);
  const Reader reader(body);
  const auto unknown = unknown_fields(body, pull_fields());
  const std::string name = plain_name(read_model(reader));
  const bool streams = reader.boolean("stream").value_or(true);
  const auto job = std::make_shared<Job>(
      exchange, streams, answer_headers(origin_of(request, "ollama"), unknown, context->ignored));
  context->library.post_long([context, job, name] {
    job->run([&] {
      job->status({{"status", "pulling manifest"}});
      store::Watch watch;
      ProgressLines lines(*job);
      watch.on_progress = [&lines](const store::Progress& progress) { lines(progress); };
      watch.on_note = [&job](const std::string& note) { job->status({{"status", note}}); };
      watch.cancel = &job->cancelled();
      context->library.pull(name, watch);
    });
  });
}

/// Each name and digest is checked here; whether the uploads are there, when they are used.
std::vector<library::EntryFile> read_files(const Reader& reader) {
  std::vector<library::EntryFile> files;
  const Json* value = reader.find("files");
  if (value == nullptr) return files;
  if (!value->is_object()) reader.reject("files", "an object of names and digests");
  const Reader fields(*value, "files.");
  for (const auto& [name, digest] : value->items()) {
    if (!digest.is_string()) fields.reject(name, "a digest");
    files.push_back({name, library::Blobs::digest_of(digest.get_ref<const std::string&>())});
  }
  return files;
}

std::vector<std::string> read_licences(const Reader& reader) {
  const Json* value = reader.find("license");
  if (value == nullptr) return {};
  const Json list = value->is_array() ? *value : Json::array({*value});
  std::vector<std::string> licences;
  for (const Json& one : list) {
    if (!one.is_string()) reader.reject("license", "a text or a list of texts");
    if (!one.get_ref<const std::string&>().empty()) licences.push_back(one.get<std::string>());
  }
  return licences;
}

library::CreateOrder read_order(const Context& context, const Reader& reader) {
  constexpr std::array<std::pair<const char*, const char*>, 4> kNotBuilt = {
      {{"template", "the template is that of the model's files"},
       {"adapters", "adapters are not built yet"},
       {"messages", "messages of a model are not built yet"},
       {"quantize", "uploads stay as they are: use penstock convert"}}};
  for (const auto& [name, why] : kNotBuilt) refuse_unless_empty(reader, name, why);
  library::CreateOrder order;
  order.name = plain_name(read_model(reader));
  order.files = read_files(reader);
  order.preset.system = reader.string("system").value_or("");
  order.preset.licences = read_licences(reader);
  check_options(reader, "parameters");
  if (const Json* parameters = reader.find("parameters")) order.preset.parameters = *parameters;
  const std::string from = reader.string("from").value_or("");
  if (from.empty() == order.files.empty()) {
    throw Error(Code::kInvalidRequest, "[api.create] expected either 'from' or 'files'; got " +
                                           std::string(from.empty() ? "neither" : "both"));
  }
  if (!from.empty()) order.from = resolve(context.service, from).name;
  return order;
}

void create(const ContextPtr& context, const http::Request& request, const ExchangePtr& exchange) {
  require_change(*context, request);
  const Json body = parse_body(request);
  const Reader reader(body);
  const auto unknown = unknown_fields(body, create_fields());
  library::CreateOrder order = read_order(*context, reader);
  const bool streams = reader.boolean("stream").value_or(true);
  const auto job = std::make_shared<Job>(
      exchange, streams, answer_headers(origin_of(request, "ollama"), unknown, context->ignored));
  context->library.post_long([context, job, order = std::move(order)] {
    job->run([&] {
      context->library.create(order, [&job](const std::string& status) {
        job->status({{"status", status}});
      });
    });
  });
}

void copy(const ContextPtr& context, const http::Request& request, const ExchangePtr& exchange) {
  require_change(*context, request);
  const Json body = parse_body(request);
  const Reader reader(body);
  const auto unknown = unknown_fields(body, copy_fields());
  const auto source = reader.string("source"), destination = reader.string("destination");
  if (!source || !destination)
    throw Error(Code::kInvalidRequest, "[api.copy] expected a source and a destination; got one missing");
  const Named named = resolve(context->service, *source);
  auto headers = answer_headers(origin_of(request, "ollama"), unknown, context->ignored);
  answer_on_worker(context->library, exchange,
                   [context, named, name = plain_name(*destination), headers = std::move(headers)] {
                     context->library.copy(named.name, name);
                     return http::Response{200, headers, "", ""};
                   });
}

void remove(const ContextPtr& context, const http::Request& request, const ExchangePtr& exchange) {
  require_change(*context, request);
  const Json body = parse_body(request);
  const auto unknown = unknown_fields(body, delete_fields());
  const Named named = resolve(context->service, read_model(Reader(body)));
  auto headers = answer_headers(origin_of(request, "ollama"), unknown, context->ignored);
  answer_on_worker(context->library, exchange, [context, named, headers = std::move(headers)] {
    context->library.remove(named.name);
    return http::Response{200, headers, "", ""};
  });
}

}  // namespace

void require_change(const Context& context, const http::Request& request) {
  context.library.require_change();
  const std::string_view origin = request.header("Origin");
  const size_t host = origin.find("://");
  const bool is_own = host != std::string_view::npos && origin.substr(host + 3) == request.header("Host");
  if (origin.empty() || is_own) return;
  for (const std::string& allowed : context.cors_origins) {
    if (allowed == "*" || allowed == origin) return;
  }
  throw Error(Code::kForbidden,
              "[api.change] expected a web page of an origin that is allowed (cors_origins); got another");
}

void add_change_routes(Surface& surface, const ContextPtr& context) {
  const auto add = [&](const char* method, const char* path, auto handle) {
    surface.add(method, path, [context, handle](const auto& request, const ExchangePtr& exchange) {
      handle(context, request, exchange);
    });
  };
  add("POST", "/api/pull", pull);
  add("POST", "/api/create", create);
  add("POST", "/api/copy", copy);
  add("DELETE", "/api/delete", remove);
}

}  // namespace penstock::api::ollama
