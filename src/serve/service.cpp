#include "serve/service.h"

#include <chrono>
#include <future>
#include <thread>

#include "base/error.h"
#include "serve/jobs.h"
#include "serve/prompt.h"

namespace penstock::serve {

using base::Code;
using base::Error;

namespace {

std::shared_ptr<pool::ModelPool> pool_of(std::shared_ptr<const pool::Model> model) {
  pool::ModelSource source{model->id, model->names, [model] { return model; }, 0};
  const std::string id = source.id;
  auto models = std::make_shared<pool::ModelPool>(std::vector<pool::ModelSource>{std::move(source)});
  std::promise<void> loaded;
  models->load(id, true, [&loaded](const std::exception_ptr&) { loaded.set_value(); });
  loaded.get_future().wait();
  return models;
}

/// What the request leaves open.
void fill(chat::Sampling& sampling, const pool::GenerationDefaults& profile) {
  if (!sampling.temperature) sampling.temperature = profile.temperature;
  if (!sampling.top_p) sampling.top_p = profile.top_p;
  if (!sampling.min_p) sampling.min_p = profile.min_p;
  if (!sampling.repetition_penalty) sampling.repetition_penalty = profile.repetition_penalty;
  if (!sampling.top_k) sampling.top_k = profile.top_k;
}

void post(Shared& shared, const std::shared_ptr<Generation>& generation) {
  if (shared.prepare.try_post([generation] { generation->prepare_and_submit(); })) return;
  throw Error(Code::kOverloaded, "[serve.submit] expected room for one more request; got a full queue");
}

/// Why a model is not there is no fault of the request's.
Error without_model(const std::exception_ptr& why) {
  try {
    std::rethrow_exception(why);
  } catch (const Error& error) {
    if (error.code() == Code::kUnavailable || error.code() == Code::kOverloaded) return error;
    return {Code::kInternal, "[serve.model] expected the model to load; " + std::string(error.text())};
  } catch (const std::exception& error) {
    return {Code::kInternal, std::string("[serve.model] expected the model to load; got ") + error.what()};
  }
}

void refuse_without_model(Generation& generation, const std::exception_ptr& why) {
  const Error error = without_model(why);
  generation.refuse(error, error.code() == Code::kInternal ? Tally::End::kFailed : Tally::End::kRefused);
}

/// On the loader thread, which must not be held up.
void start_late(Shared& shared, const std::shared_ptr<Generation>& generation, pool::Lease lease) {
  try {
    check(generation->request(), *lease);
    generation->attach(std::move(lease));
    post(shared, generation);
  } catch (const Error& error) {
    generation->refuse(error, Tally::End::kRefused);
  }
}

/// Of all prompts of the request.
int32_t n_tokens(const chat::Request& request, const pool::Model& model) {
  size_t tokens = 0;
  for (const EncodedPrompt& prompt : encode_prompts(request, model)) tokens += prompt.ids.size();
  return static_cast<int32_t>(tokens);
}

void post_count(Shared& shared, std::shared_ptr<const chat::Request> request, pool::Lease model,
                OnCount on_count) {
  check(*request, *model);
  const bool is_posted = shared.prepare.try_post([request, model, on_count] {
    try {
      on_count(n_tokens(*request, *model));
    } catch (const Error& error) {
      on_count(error);
    } catch (const std::exception& error) {
      on_count(Error(Code::kInternal, std::string("[serve.count] expected a prompt; got ") + error.what()));
    }
  });
  if (is_posted) return;
  throw Error(Code::kOverloaded, "[serve.count] expected room for one more request; got a full queue");
}

/// Models that programs ask for without having been told a name: those of the services that they were made
/// for. The open models of the same makers are none.
bool is_hosted_model(std::string_view name) {
  return name.starts_with("claude-") || (name.starts_with("gpt-") && !name.starts_with("gpt-oss"));
}

}  // namespace

Service::Service(std::shared_ptr<const pool::Model> model, ServiceOptions options)
    : Service(pool_of(std::move(model)), std::move(options)) {}

Service::Service(std::shared_ptr<pool::ModelPool> models, ServiceOptions options)
    : request_timeout_ms_(options.request_timeout_ms),
      hosted_model_names_(options.hosted_model_names),
      profiles_(std::move(options.profiles)),
      pool_(std::move(models)),
      shared_(
          std::make_shared<Shared>(options.prepare_threads, options.max_preparing, options.stream_threads)),
      sessions_(std::make_shared<SessionRegistry>(std::move(options.disk)), pool_),
      lifecycle_([shared = shared_.get()] { return shared->tally.values().running; },
                 [this] {
                   pool_->trim_caches();
                   pool_->release();
                 }),
      memory_(std::move(options.memory),
              {[this] { pool_->trim_caches(); }, [this] { return pool_->release_one_idle(); }}) {
  shared_->sessions = sessions_.registry();
}

Service::~Service() {
  stop();
}

void Service::stop() {
  lifecycle_.stop();
  memory_.stop();
  shared_->prepare.stop();
  pool_->stop();
  shared_->stream.stop();
}

std::shared_ptr<Generation> Service::submit(chat::Request request, std::shared_ptr<chat::EventSink> sink) {
  shared_->tally.begin();
  const std::string id = request.id;
  const chat::Origin origin = request.origin;
  try {
    require_running();
    memory_.require_room();
    const Named named = resolve(request.model);
    if (named.profile != nullptr) fill(request.sampling, *named.profile);
    if (!request.serving.timeout_ms && request_timeout_ms_ > 0)
      request.serving.timeout_ms = request_timeout_ms_;
    auto generation = std::make_shared<Generation>(shared_, std::move(request), std::move(sink));
    start(generation, named.id);
    return generation;
  } catch (const Error& error) {
    count_refused(id, origin, error.code());
    throw;
  } catch (...) {
    count_refused(id, origin, Code::kInternal);
    throw;
  }
}

void Service::count_tokens(chat::Request request, OnCount on_count) {
  require_running();
  const std::string id = resolve(request.model).id;
  const auto wanted = std::make_shared<const chat::Request>(std::move(request));
  if (pool::Lease lease = pool_->try_lease(id)) {
    return post_count(*shared_, wanted, std::move(lease), std::move(on_count));
  }
  pool_->lease(id, [shared = shared_, wanted, on_count = std::move(on_count)](pool::Lease lease,
                                                                              const std::exception_ptr& why) {
    if (why != nullptr) return on_count(without_model(why));
    try {
      post_count(*shared, wanted, std::move(lease), on_count);
    } catch (const Error& error) {
      on_count(error);
    }
  });
}

void Service::require_running() const {
  const State now = state();
  if (now == State::kRunning) return;
  throw Error(Code::kUnavailable,
              "[serve.submit] expected a running server; got one that is " + std::string(name(now)));
}

void Service::require_room(const chat::Origin& origin) {
  if (state() != State::kRunning) return;  // submit() says so
  try {
    memory_.require_room();
    if (!pool_->is_full()) return;
    const engine::Counters now = engine_counters();
    throw Error(Code::kOverloaded, "[serve.submit] expected room for one more request; got " +
                                       std::to_string(now.running) + " sequences that run and " +
                                       std::to_string(now.waiting) + " that wait, the most that may");
  } catch (const Error& error) {
    shared_->tally.begin();
    count_refused({}, origin, error.code());
    throw;
  }
}

/// Of a request that was counted as begun.
void Service::count_refused(std::string id, chat::Origin origin, Code code) {
  FinishedRequest refused;
  refused.id = std::move(id);
  refused.origin = std::move(origin);
  refused.error = base::name(code);
  shared_->telemetry.end(std::move(refused), {});
  shared_->tally.end(Tally::End::kRefused);
}

std::optional<tier::DiskStats> Service::disk_stats() const {
  const auto& disk = shared_->sessions->disk();
  return disk == nullptr ? std::nullopt : std::optional(disk->stats());
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

void Service::start(const std::shared_ptr<Generation>& generation, const std::string& id) {
  const std::string& request_id = generation->request().id;
  shared_->live.add(request_id, generation);
  try {
    if (pool::Lease lease = pool_->try_lease(id)) {
      check(generation->request(), *lease);
      generation->attach(std::move(lease));
      return post(*shared_, generation);
    }
    const uint64_t ticket =
        pool_->lease(id, [shared = shared_, generation](pool::Lease lease, const std::exception_ptr& why) {
          if (why != nullptr) return refuse_without_model(*generation, why);
          start_late(*shared, generation, std::move(lease));
        });
    // Weak: the last owner of a pool must not be one of its waiters, which its own thread may let go of.
    generation->await_model([models = std::weak_ptr(pool_), id, ticket] {
      const auto pool = models.lock();
      return pool != nullptr && pool->withdraw(id, ticket);
    });
  } catch (...) {
    shared_->live.remove(request_id);
    throw;
  }
}

std::string Service::id_of(std::string_view name) const {
  try {
    return pool_->id_of(name);
  } catch (const Error&) {
    if (!hosted_model_names_ || !is_hosted_model(name)) throw;
    return pool_->id_of({});
  }
}

/// A name with a colon may be a model's own, of a file of a repository; else a profile stands behind the
/// last.
Service::Named Service::resolve(std::string_view name) const {
  const size_t colon = name.rfind(':');
  const auto profile =
      colon == std::string_view::npos ? profiles_.end() : profiles_.find(name.substr(colon + 1));
  if (profile == profiles_.end()) return {id_of(name)};
  try {
    return {pool_->id_of(name)};
  } catch (const Error&) {
    return {id_of(name.substr(0, colon)), &profile->second};
  }
}

ModelCard Service::model(std::string_view name) const {
  const std::string id = resolve(name).id;
  for (const ModelCard& card : models()) {
    if (card.id == id) return card;
  }
  throw Error(Code::kInternal, "[serve.model] expected " + id + " in the list of models; got none");
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
