#include "serve/service.h"

#include <chrono>
#include <future>
#include <thread>

#include "base/error.h"
#include "serve/jobs.h"

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

void post(Shared& shared, const std::shared_ptr<RequestWork>& work) {
  if (shared.prepare.try_post([work] { work->prepare_and_submit(); })) return;
  throw Error(Code::kOverloaded, "[serve.submit] expected room for one more request; got a full queue");
}

/// Why a model is not there is no fault of the request's.
void refuse_without_model(RequestWork& work, const std::exception_ptr& why) {
  try {
    std::rethrow_exception(why);
  } catch (const Error& error) {
    const Code code = error.code();
    if (code == Code::kUnavailable || code == Code::kOverloaded)
      return work.refuse(error, Tally::End::kRefused);
    work.refuse(
        Error(Code::kInternal, "[serve.model] expected the model to load; " + std::string(error.text())),
        Tally::End::kFailed);
  } catch (const std::exception& error) {
    work.refuse(
        Error(Code::kInternal, std::string("[serve.model] expected the model to load; got ") + error.what()),
        Tally::End::kFailed);
  }
}

/// On the loader thread, which must not be held up.
void start_late(Shared& shared, const std::shared_ptr<RequestWork>& work, pool::Lease lease) {
  try {
    work->check(*lease);
    work->attach(std::move(lease));
    post(shared, work);
  } catch (const Error& error) {
    work->refuse(error, Tally::End::kRefused);
  }
}

}  // namespace

Service::Service(std::shared_ptr<const pool::Model> model, ServiceOptions options)
    : Service(pool_of(std::move(model)), std::move(options)) {}

Service::Service(std::shared_ptr<pool::ModelPool> models, ServiceOptions options)
    : request_timeout_ms_(options.request_timeout_ms),
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

void Service::require_running() const {
  if (const State now = state(); now != State::kRunning) {
    throw Error(Code::kUnavailable,
                "[serve.submit] expected a running server; got one that is " + std::string(name(now)));
  }
}

template <class Begin>
auto Service::counted(const std::string& id, const chat::Origin& origin, const Begin& begin) {
  shared_->tally.begin();
  try {
    require_running();
    memory_.require_room();
    return begin();
  } catch (const Error& error) {
    count_refused(id, origin, error.code());
    throw;
  } catch (...) {
    count_refused(id, origin, Code::kInternal);
    throw;
  }
}

std::shared_ptr<Generation> Service::submit(chat::Request request, std::shared_ptr<chat::EventSink> sink) {
  const std::string id = request.id;
  const chat::Origin origin = request.origin;
  return counted(id, origin, [&] {
    const Named named = resolve(request.model);
    if (named.profile != nullptr) fill(request.sampling, *named.profile);
    if (!request.serving.timeout_ms && request_timeout_ms_ > 0)
      request.serving.timeout_ms = request_timeout_ms_;
    auto generation = std::make_shared<Generation>(shared_, std::move(request), std::move(sink));
    start(generation, named.id);
    return generation;
  });
}

std::shared_ptr<Encoding> Service::encode(chat::EncodeRequest request, OnAnswer on_answer) {
  const std::string id = request.id;
  const chat::Origin origin = request.origin;
  return counted(id, origin, [&] {
    const std::string model = resolve(request.model).id;
    if (!request.timeout_ms && request_timeout_ms_ > 0) request.timeout_ms = request_timeout_ms_;
    auto encoding = std::make_shared<Encoding>(shared_, std::move(request), std::move(on_answer));
    start(encoding, model);
    return encoding;
  });
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
  const auto work = shared_->live.find(id);
  if (work == nullptr) return false;
  work->cancel(RequestWork::Why::kById);
  return true;
}

int Service::retry_after_seconds() const {
  const engine::Counters engine = engine_counters();
  return serve::retry_after_seconds(engine.waiting, engine.running, shared_->service_time.mean_ms());
}

void Service::start(const std::shared_ptr<RequestWork>& work, const std::string& model) {
  const std::string& request_id = work->id();
  shared_->live.add(request_id, work);
  try {
    if (pool::Lease lease = pool_->try_lease(model)) {
      work->check(*lease);
      work->attach(std::move(lease));
      return post(*shared_, work);
    }
    const uint64_t ticket =
        pool_->lease(model, [shared = shared_, work](pool::Lease lease, const std::exception_ptr& why) {
          if (why != nullptr) return refuse_without_model(*work, why);
          start_late(*shared, work, std::move(lease));
        });
    // Weak: the last owner of a pool must not be one of its waiters, which its own thread may let go of.
    work->await_model([models = std::weak_ptr(pool_), model, ticket] {
      const auto pool = models.lock();
      return pool != nullptr && pool->withdraw(model, ticket);
    });
  } catch (...) {
    shared_->live.remove(request_id);
    throw;
  }
}

/// A name with a colon may be a model's own, of a file of a repository; else a profile stands behind the
/// last.
Service::Named Service::resolve(std::string_view name) const {
  const size_t colon = name.rfind(':');
  if (colon == std::string_view::npos) return {pool_->id_of(name)};
  try {
    return {pool_->id_of(name)};
  } catch (const Error&) {
    const auto profile = profiles_.find(name.substr(colon + 1));
    if (profile == profiles_.end()) throw;
    return {pool_->id_of(name.substr(0, colon)), &profile->second};
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
