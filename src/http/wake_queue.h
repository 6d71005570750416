// The connections of one io thread that other threads have woken: many in one step of the engine, so they
// share one task of the thread instead of having one each. A service of the thread's io_context.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>

namespace penstock::http {

class Connection;

class WakeQueue : public boost::asio::execution_context::service {
 public:
  static boost::asio::execution_context::id id;

  explicit WakeQueue(boost::asio::execution_context& context)
      : service(context), context_(static_cast<boost::asio::io_context&>(context)) {}

  /// Any thread.
  void add(std::shared_ptr<Connection> connection);

 private:
  void shutdown() override { woken_.clear(); }
  void post();
  void run();

  boost::asio::io_context& context_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Connection>> woken_;
  bool posted_ = false;
};

}  // namespace penstock::http
