#include "serve/service.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "base/error.h"
#include "serve/jobs.h"

namespace penstock::serve {

using base::Code;
using base::Error;

namespace {

/// A name that stands for two things is a slip that would show as the wrong answer.
std::shared_ptr<const pool::Model> with_names_of_its_own(std::shared_ptr<const pool::Model> model) {
  std::set<std::string_view> seen = {model->id};
  for (const std::string& name : model->names) {
    if (!name.empty() && seen.insert(name).second) continue;
    throw Error(Code::kInvalidRequest,
                "[serve.model] expected names of the model that differ; got '" + name + "' twice or empty");
  }
  return model;
}

}  // namespace

Service::Service(std::shared_ptr<const pool::Model> model, ServiceOptions options)
    : request_timeout_ms_(options.request_timeout_ms),
      shared_(std::make_shared<Shared>(with_names_of_its_own(std::move(model)), options.prepare_threads,
                                       options.max_preparing, options.stream_threads)),
      lifecycle_([shared = shared_.get()] { return shared->tally.values().running; },
                 [this] { clear_cache(); }) {}

Service::~Service() {
  stop();
}

void Service::stop() {
  lifecycle_.stop();
  shared_->prepare.stop();
  shared_->model->generator->stop();
  shared_->stream.stop();
}

std::shared_ptr<Generation> Service::submit(chat::Request request, std::shared_ptr<chat::EventSink> sink) {
  shared_->tally.begin();
  try {
    if (const State now = state(); now != State::kRunning) {
      throw Error(Code::kUnavailable,
                  "[serve.submit] expected a running server; got one that is " + std::string(name(now)));
    }
    model(request.model);
    check(request, *shared_->model);
    if (!request.serving.timeout_ms && request_timeout_ms_ > 0)
      request.serving.timeout_ms = request_timeout_ms_;
    const std::string id = request.id;
    auto generation = std::make_shared<Generation>(shared_, std::move(request), std::move(sink));
    shared_->live.add(id, generation);
    if (!shared_->prepare.try_post([generation] { generation->prepare_and_submit(); })) {
      shared_->live.remove(id);
      throw Error(Code::kOverloaded, "[serve.submit] expected room for one more request; got a full queue");
    }
    return generation;
  } catch (...) {
    shared_->tally.end(Tally::End::kRefused);
    throw;
  }
}

bool Service::cancel(const std::string& id) {
  const auto generation = shared_->live.find(id);
  if (generation == nullptr) return false;
  generation->cancel(Generation::Why::kById);
  return true;
}

int Service::retry_after_seconds() const {
  const engine::Counters engine = engine_counters();
  return serve::retry_after_seconds(engine.waiting, engine.running, shared_->service_time.mean_ms());
}

bool Service::answers_to(std::string_view name) const {
  const pool::Model& model = *shared_->model;
  return name.empty() || name == "default" || name == model.id ||
         std::find(model.names.begin(), model.names.end(), name) != model.names.end();
}

std::vector<ModelCard> Service::models() const {
  const pool::Model& model = *shared_->model;
  ModelCard card;
  card.id = model.id;
  card.names = model.names;
  card.created = model.created;
  card.family = model.family;
  card.format = model.format;
  card.executor = model.executor;
  card.executor_detail = model.executor_detail;
  card.context_length = model.context_length;
  card.has_template = model.codec->has_template();
  return {card};
}

ModelCard Service::model(std::string_view name) const {
  if (!answers_to(name)) {
    throw Error(
        Code::kNotFound,
        "[serve.model] expected the model '" + shared_->model->id + "'; got '" + std::string(name) + "'",
        "model");
  }
  return models().front();
}

bool Service::wait_idle(int64_t timeout_ms) const {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (counters().running > 0) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace penstock::serve
