#include "http/server.h"

#include <algorithm>
#include <future>
#include <thread>
#include <unordered_set>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <sys/resource.h>

#include "http/listener.h"
#include "http/server_state.h"
#include "http/session.h"

namespace penstock::http {
namespace net = boost::asio;

namespace {

// Connections over the limit that may wait for their 503; more than that are closed without a word.
constexpr size_t kMostRefused = 64;
constexpr size_t kOtherFiles = 1024;

/// The usual limit of 1024 open files is less than the connections and the model's files need together.
void raise_file_limit(size_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, wanted);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// One io thread. `sessions` is touched on that thread only.
struct IoThread {
  net::io_context context{1};
  net::executor_work_guard<net::io_context::executor_type> work{context.get_executor()};
  std::unordered_set<Session*> sessions;
  std::thread thread;
};

}  // namespace

void try_addresses(const ServerOptions& options) {
  net::io_context context;
  Listener listener(
      context, [&]() -> net::io_context& { return context; },
      [](net::io_context&, Socket, const std::string&) {});
  if (options.port >= 0) listener.bind_tcp(options.host, options.port);
  if (!options.unix_socket.empty()) listener.bind_unix(options.unix_socket);
  listener.close();
}

class Server::Impl {
 public:
  Impl(ServerOptions options, Router router) : state_(std::make_shared<ServerState>()) {
    state_->options = std::move(options);
    state_->router = std::move(router);
    const int count = std::max(1, state_->options.io_threads);
    for (int i = 0; i < count; ++i) threads_.push_back(std::make_unique<IoThread>());
  }

  void start() {
    const ServerOptions& options = state_->options;
    raise_file_limit(options.limits.max_connections + kMostRefused + kOtherFiles);
    listener_ = std::make_unique<Listener>(
        threads_[0]->context,
        [this]() -> net::io_context& { return threads_[turn_++ % threads_.size()]->context; },
        [this](net::io_context& home, Socket socket, std::string peer) {
          take(home, std::move(socket), std::move(peer));
        });
    if (options.port >= 0) listener_->bind_tcp(options.host, options.port);
    try {
      if (!options.unix_socket.empty()) listener_->bind_unix(options.unix_socket);
    } catch (...) {
      listener_->close();
      throw;
    }
    net::post(threads_[0]->context, [this] { listener_->accept(); });
    for (const auto& io : threads_) io->thread = std::thread([&context = io->context] { context.run(); });
    running_ = true;
  }

  /// Runs `task` on an io thread and waits for it.
  void run_on(IoThread& io, const std::function<void()>& task) {
    std::promise<void> done;
    net::post(io.context, [&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }

  void stop_accepting() {
    if (running_) run_on(*threads_[0], [this] { listener_->close(); });
  }

  void stop() {
    if (!running_) return;
    stop_accepting();
    running_ = false;
    for (const auto& io : threads_) {
      net::post(io->context, [&io = *io] {
        for (Session* session : io.sessions) session->stop();
        io.work.reset();
      });
    }
    for (const auto& io : threads_) io->thread.join();
  }

  std::string url() const {
    const ServerOptions& options = state_->options;
    if (options.port < 0) return "unix:" + options.unix_socket;
    std::string host = options.host;
    if (host == "0.0.0.0") host = "127.0.0.1";
    if (host == "::") host = "::1";
    if (host.find(':') != std::string::npos) host = "[" + host + "]";
    return "http://" + host + ":" + std::to_string(port());
  }

  int port() const { return listener_ ? listener_->port() : 0; }
  ServerState& state() { return *state_; }

 private:
  void take(net::io_context& home, Socket socket, std::string peer) {
    IoThread& io =
        **std::find_if(threads_.begin(), threads_.end(), [&](auto& t) { return &t->context == &home; });
    const size_t others = state_->connections.fetch_add(1);
    const bool refuse = others >= state_->options.limits.max_connections;
    if (others >= state_->options.limits.max_connections + kMostRefused) {
      --state_->connections;
      return;  // the socket closes
    }
    auto session = std::make_shared<Session>(std::move(socket), state_, std::move(peer));
    net::post(io.context, [this, &io, refuse, session = std::move(session)] {
      io.sessions.insert(session.get());
      session->start(refuse, [this, &io](Session* ended) {
        io.sessions.erase(ended);
        --state_->connections;
      });
      if (!running_) session->stop();
    });
  }

  const std::shared_ptr<ServerState> state_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  std::unique_ptr<Listener> listener_;
  size_t turn_ = 0;
  std::atomic<bool> running_{false};
};

Server::Server(ServerOptions options, Router router)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(router))) {}
Server::~Server() {
  stop();
}
void Server::start() {
  impl_->start();
}
int Server::port() const {
  return impl_->port();
}
std::string Server::url() const {
  return impl_->url();
}
void Server::stop_accepting() {
  impl_->stop_accepting();
}

bool Server::drain(int timeout_ms) {
  impl_->state().draining = true;
  return impl_->state().wait_idle(timeout_ms);
}

void Server::stop() {
  impl_->stop();
}
size_t Server::open_connections() const {
  return impl_->state().connections;
}
size_t Server::active_requests() const {
  return impl_->state().active_requests();
}

}  // namespace penstock::http
