#include "api/shutdown.h"

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace penstock::api {
namespace {

/// What the waiting thread and the signal thread share; never destroyed, since the latter is never joined.
struct Desk {
  std::mutex mutex;
  std::condition_variable signalled;
  bool is_awaited = false;
  int first = 0;
};

Desk& desk() {
  static Desk* const only = new Desk;
  return *only;
}

void watch(sigset_t set) {
  while (true) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    const std::lock_guard lock(desk().mutex);
    if (!desk().is_awaited || desk().first != 0) std::_Exit(signal == SIGINT ? 130 : 1);
    desk().first = signal;
    desk().signalled.notify_all();
  }
}

}  // namespace

ShutdownSignals::ShutdownSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  desk();
  std::thread(watch, set).detach();
}

int ShutdownSignals::wait() const {
  std::unique_lock lock(desk().mutex);
  desk().is_awaited = true;
  desk().signalled.wait(lock, [] { return desk().first != 0; });
  return desk().first;
}

void ShutdownSignals::stop() {
  const std::lock_guard lock(desk().mutex);
  if (desk().first == 0) desk().first = SIGTERM;
  desk().signalled.notify_all();
}

}  // namespace penstock::api
