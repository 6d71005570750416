#include "api/shutdown.h"

#include <csignal>
#include <cstdlib>
#include <thread>

#include "base/log.h"

namespace penstock::api {
namespace {

sigset_t signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

int next_signal() {
  const sigset_t set = signals();
  int signal = 0;
  while (sigwait(&set, &signal) != 0) {
  }
  return signal;
}

}  // namespace

ShutdownSignals::ShutdownSignals() {
  const sigset_t set = signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

int ShutdownSignals::wait() const {
  const int first = next_signal();
  std::thread([] {
    const int second = next_signal();
    base::log::warn("second signal: stopping at once");
    std::_Exit(second == SIGINT ? 130 : 1);
  }).detach();
  return first;
}

}  // namespace penstock::api
