// SIGTERM and SIGINT as something to wait for. Make one in main() before any other thread starts: threads
// inherit the blocked signals, so that only its own thread sees them. One per process, until the end.
#pragma once

namespace penstock::api {

class ShutdownSignals {
 public:
  /// From now on a signal ends the process at once (while a model loads, say), with status 130 for SIGINT and
  /// 1 for SIGTERM.
  ShutdownSignals();

  /// Waits for the first signal, which ends the wait and not the process, and returns it. A second one ends
  /// the process at once.
  int wait() const;

  /// Ends the wait as a signal would. Any thread.
  static void stop();
};

}  // namespace penstock::api
