#include "http/client.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <curl/curl.h>

#include "base/error.h"
#include "http/transfer.h"
#include "http/uri.h"

namespace penstock::http {
namespace {

using base::Code;
using base::Error;

constexpr int kPollMs = 100;  // how late a cancellation may be noticed

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* handle) const {
    Free(handle);
  }
};
using Headers = std::unique_ptr<curl_slist, Deleter<curl_slist_free_all>>;

void initialise_once() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

bool is_secret(std::string_view name) {
  const std::vector<Header> one{{std::string(name), "x"}};
  return !find_header(one, "Authorization").empty() || !find_header(one, "Cookie").empty();
}

}  // namespace

class Client::Impl {
 public:
  explicit Impl(ClientOptions options) : options_(std::move(options)) {
    initialise_once();
    multi_.reset(curl_multi_init());
    if (!multi_) throw Error(Code::kInternal, "[http.client] expected libcurl to start; got nothing");
  }

  ClientResponse send(const ClientRequest& request) {
    ClientResponse response;
    std::string url = request.url;
    std::string method = request.method;
    const auto begin = TransferClock::now();
    for (int hops = 0;; ++hops) {
      Transfer transfer(request, url, options_.max_body_bytes, begin);
      const std::string next = run(transfer, method);
      if (!transfer.is_redirect()) {
        response.last = std::move(transfer.hop);
        response.body = std::move(transfer.body);
        return response;
      }
      if (hops >= request.max_redirects) {
        throw fetch_failure(
            Code::kIo, request.url,
            "expected at most " + std::to_string(request.max_redirects) + " redirects; got more");
      }
      check_redirect(url, next);
      const int status = transfer.hop.status;
      if (status == 303 ? method != "HEAD" : (status <= 302 && method == "POST")) method = "GET";
      response.redirects.push_back(std::move(transfer.hop));
      url = next;
    }
  }

 private:
  static void check_redirect(const std::string& from, const std::string& to) {
    const std::string old_origin = origin_of(from), new_origin = origin_of(to);
    const bool is_http = new_origin.starts_with("http://") || new_origin.starts_with("https://");
    if (!is_http)
      throw fetch_failure(Code::kIo, from, "expected a redirect to http or https; got " + public_url(to));
    if (old_origin.starts_with("https://") && !new_origin.starts_with("https://")) {
      throw fetch_failure(Code::kIo, from, "expected a redirect that stays encrypted; got " + public_url(to));
    }
  }

  static size_t on_header(char* data, size_t size, size_t count, void* user) {
    return guarded(user, size * count, [&](Transfer& t) { t.add_head_line({data, size * count}); });
  }

  static size_t on_data(char* data, size_t size, size_t count, void* user) {
    return guarded(user, size * count, [&](Transfer& t) {
      t.end_head();
      t.take({data, size * count});
    });
  }

  /// Exceptions may not cross libcurl: they are kept, and a short count stops the transfer.
  template <class F>
  static size_t guarded(void* user, size_t bytes, F&& body) {
    Transfer& transfer = *static_cast<Transfer*>(user);
    transfer.last_byte = TransferClock::now();
    try {
      body(transfer);
      return bytes;
    } catch (...) {
      transfer.thrown = std::current_exception();
      return bytes + 1;
    }
  }

  template <class T>
  void set(CURLoption option, T value) {
    if (const CURLcode code = curl_easy_setopt(easy_.get(), option, value); code != CURLE_OK) {
      throw Error(Code::kInternal, std::string("[http.client] expected libcurl to take an option; got ") +
                                       curl_easy_strerror(code));
    }
  }

  void set_method(const ClientRequest& request, const std::string& method) {
    if (method == "HEAD") {
      set(CURLOPT_NOBODY, 1L);
    } else if (method == "POST" || (method == request.method && !request.body.empty())) {
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
      set(CURLOPT_POSTFIELDS, request.body.data());
      if (method != "POST") set(CURLOPT_CUSTOMREQUEST, method.c_str());
    } else if (method != "GET") {
      set(CURLOPT_CUSTOMREQUEST, method.c_str());
    }
  }

  Headers header_list(const ClientRequest& request, const std::string& url) {
    const bool same_origin = origin_of(url) == origin_of(request.url);
    Headers list;
    const auto add = [&](const std::string& line) {
      curl_slist* longer = curl_slist_append(list.get(), line.c_str());
      if (longer == nullptr)
        throw Error(Code::kInternal, "[http.client] expected memory for headers; got none");
      static_cast<void>(list.release());
      list.reset(longer);
    };
    add("Expect:");  // no pause before a body
    for (const Header& header : request.headers) {
      if (!same_origin && is_secret(header.name)) continue;
      if ((header.name + header.value).find_first_of("\r\n") != std::string::npos) {
        throw Error(Code::kInvalidRequest,
                    "[http.fetch] expected headers without line ends; got one in " + header.name);
      }
      add(header.value.empty() ? header.name + ";" : header.name + ": " + header.value);
    }
    return list;
  }

  /// A handle whose transfer failed keeps its buffer and refuses another size of it (CURLOPT_BUFFERSIZE),
  /// even after a reset. Connections are kept by the multi handle.
  void start_anew() {
    easy_.reset(curl_easy_init());
    if (!easy_) throw Error(Code::kInternal, "[http.client] expected libcurl to start; got nothing");
  }

  void configure(Transfer& transfer, const std::string& method, curl_slist* headers) {
    const ClientRequest& request = transfer.request;
    start_anew();
    set(CURLOPT_URL, transfer.hop.url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_USERAGENT, options_.user_agent.c_str());
    set(CURLOPT_HTTPHEADER, headers);
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_timeout_ms));
    set(CURLOPT_ERRORBUFFER, error_text_);
    set(CURLOPT_HEADERFUNCTION, &on_header);
    set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
    set(CURLOPT_WRITEFUNCTION, &on_data);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
    set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    set(CURLOPT_BUFFERSIZE, 256L << 10);
    if (!options_.ca_file.empty()) set(CURLOPT_CAINFO, options_.ca_file.c_str());
    if (!request.unix_socket.empty()) set(CURLOPT_UNIX_SOCKET_PATH, request.unix_socket.c_str());
    set_method(request, method);
    if (request.range_begin) {
      const std::string end = request.range_end ? std::to_string(*request.range_end) : std::string();
      range_ = std::to_string(*request.range_begin) + "-" + end;
      set(CURLOPT_RANGE, range_.c_str());
    }
  }

  /// Performs one hop and returns where its redirect leads, if it is one.
  std::string run(Transfer& transfer, const std::string& method) {
    const auto headers = header_list(transfer.request, transfer.hop.url);
    error_text_[0] = '\0';
    configure(transfer, method, headers.get());
    const CURLcode code = drive(transfer);
    if (transfer.thrown) std::rethrow_exception(transfer.thrown);
    if (code != CURLE_OK) throw_failure(transfer, code);
    transfer.end_head();
    char* next = nullptr;
    curl_easy_getinfo(easy_.get(), CURLINFO_REDIRECT_URL, &next);
    return next != nullptr ? next : "";
  }

  /// Runs the transfer to its end, or stops it for a reason of ours, which is then in `transfer.thrown`.
  CURLcode drive(Transfer& transfer) {
    CURLM* multi = multi_.get();
    curl_multi_add_handle(multi, easy_.get());
    CURLcode result = CURLE_OK;
    for (bool over = false; !over;) {
      int running = 0;
      CURLMcode state = curl_multi_perform(multi, &running);
      if (state == CURLM_OK && running != 0) state = curl_multi_poll(multi, nullptr, 0, kPollMs, nullptr);
      if (state != CURLM_OK) {
        transfer.thrown = std::make_exception_ptr(transfer.failure(Code::kIo, curl_multi_strerror(state)));
      } else if (running != 0) {
        transfer.check_time();
      }
      over = running == 0 || transfer.thrown != nullptr;
    }
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
      if (message->msg == CURLMSG_DONE) result = message->data.result;
    }
    curl_multi_remove_handle(multi, easy_.get());
    return result;
  }

  [[noreturn]] void throw_failure(const Transfer& transfer, CURLcode code) const {
    const std::string detail = error_text_[0] != '\0' ? error_text_ : curl_easy_strerror(code);
    const Code kind = code == CURLE_OPERATION_TIMEDOUT ? Code::kTimeout : Code::kIo;
    throw transfer.failure(kind, "expected an answer; got: " + detail);
  }

  const ClientOptions options_;
  std::unique_ptr<CURL, Deleter<curl_easy_cleanup>> easy_;
  std::unique_ptr<CURLM, Deleter<curl_multi_cleanup>> multi_;
  char error_text_[CURL_ERROR_SIZE] = {};
  std::string range_;
};

Client::Client(ClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Client::~Client() = default;
ClientResponse Client::send(const ClientRequest& request) {
  return impl_->send(request);
}

}  // namespace penstock::http
