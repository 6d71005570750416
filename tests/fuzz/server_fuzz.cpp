// The whole server over a socket: any bytes, then every surface's handlers with a scripted model behind them.
// Whatever comes, the connection ends, no answer says 500, and nothing of the request is left.
#include <filesystem>
#include <memory>

#include <unistd.h>

#include "api/server.h"
#include "base/log.h"
#include "db/database.h"
#include "fuzz/target.h"
#include "jobs/batches.h"
#include "jobs/file_store.h"
#include "library/library.h"
#include "serve/response_store.h"
#include "serve/scripted_generator.h"
#include "unit/http/raw_client.h"

namespace penstock::fuzz {
namespace {

constexpr int64_t kPatienceMs = 120'000;

constexpr const char* kScript = R"({"names":["other"],"special_tokens":["<s>"],"replies":[
  {"pieces":["a","b\n"," c"],"repeat":4},{"match":"slow","pieces":["x"],"delays_ms":20},
  {"match":"bytes","pieces":[{"bytes":[226,130]},{"bytes":[172]}]},{"match":"report","report":true}]})";

/// A server on a socket of its own, made with the first input and stopped at the end.
class Live {
 public:
  Live()
      : models_(models()),
        service_(models_),
        library_(models_, {}),
        server_(settings(), service_, {responses_, files_, batches_, library_}) {
    server_.start();
  }
  ~Live() { server_.drain_and_stop(0); }

  void settle() {
    service_.lifecycle().resume();
    expect(service_.wait_idle(kPatienceMs), "a request that does not end");
  }

  static std::string socket() {
    return std::filesystem::temp_directory_path() / ("penstock-fuzz-" + std::to_string(::getpid()));
  }

 private:
  static std::shared_ptr<pool::ModelPool> models() {
    pool::ModelSource source{
        "scripted", {"other"}, [] { return serve::make_scripted_model(serve::parse_script(kScript)); }};
    return std::make_shared<pool::ModelPool>(std::vector<pool::ModelSource>{std::move(source)});
  }

  static config::Settings settings() {
    config::Settings settings;
    settings.unix_socket = socket();
    settings.max_body_bytes = 1 << 20;
    settings.header_timeout_ms = settings.body_timeout_ms = settings.idle_timeout_ms = 30;
    settings.write_timeout_ms = 1000;
    settings.cors_origins = {"https://a.b"};
    return settings;
  }

  const std::shared_ptr<pool::ModelPool> models_;
  serve::Service service_;
  library::Library library_;  // requests may change nothing
  static std::string state() { return socket() + "-state/penstock.db"; }
  db::Database database_{
      state(), {serve::ResponseStore::schema(), jobs::FileStore::schema(state()), jobs::Batches::schema()}};
  serve::ResponseStore responses_{database_};
  jobs::FileStore files_{database_};
  jobs::Batches batches_{database_, files_};
  api::ApiServer server_;
};

std::string request(const std::string& head, const std::string& body, const std::string& more = "") {
  return head + " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n" + more + "\r\n" + body;
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string close = "Connection: close\r\n", chat = "POST /v1/chat/completions";
  const auto ask = [](const std::string& text, const std::string& more) {
    return R"({"messages":[{"role":"user","content":")" + text + "\"}]" + more + "}";
  };
  std::vector<std::string> out = {
      request(chat, ask("hi", R"(,"stream":true,"stop":["c"],"n":2,"logprobs":true,"top_logprobs":2)"),
              close),
      request(chat, ask("report", R"(,"temperature":0,"logit_bias":{"5":1},"seed":1)"), close),
      request(chat, ask("bytes", R"(,"stream":true,"stream_options":{"include_usage":true})")) +
          request("GET /health", "", close),
      request(chat, ask("slow", R"(,"timeout_ms":1)"), close),
      request("POST /v1/completions", R"({"prompt":["a",[1,2]],"max_tokens":3,"stream":true})", close),
      request(
          "POST /v1/messages",
          R"({"max_tokens":9,"stream":true,"system":[{"type":"text","text":"a"}],"tools":[{"name":"f","input_schema":{}}],"messages":[{"role":"user","content":"bytes"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x","is_error":true}]}]})",
          close),
      request("POST /v1/messages/count_tokens", ask("hi", R"(,"thinking":{"type":"disabled"})"), close),
      request("POST /v1/models/load", R"({"model":"other","pin":true})", close),
      request("POST /v1/models/unload", R"({"model":"scripted"})", close),
      request("POST /v1/admin/drain", R"({"timeout_ms":5})") + request("POST /v1/admin/resume", "", close),
      request("POST /v1/admin/suspend", "", close),
      request("POST /v1/requests/r%31/cancel", "{}", close),
      request("POST /v1/cache/clear", "", close),
      request(
          "POST /v1/responses",
          R"({"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"reasoning",)"
          R"("summary":[]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},)"
          R"({"type":"function_call_output","call_id":"c","output":"x"}],"stream":true,"store":false,)"
          R"("tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}]})",
          close),
      request("POST /v1/responses", R"({"input":"hi","previous_response_id":"resp_0","background":true})",
              close),
      request("GET /v1/responses/resp_0/input_items?limit=2&order=asc&after=a%20b", "", close),
      request("POST /v1/batches",
              R"({"input_file_id":"file-0","endpoint":"/v1/responses","completion_window":"24h"})", close),
      "POST /v1/files HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; "
      "boundary=X\r\nContent-Length: 86\r\n" +
          close +
          "\r\n--X\r\nContent-Disposition: form-data; name=\"purpose\"; "
          "filename=\"a\\\"b\"\r\n\r\nbatch\r\n--X--\r\n"};
  for (const char* path :
       {"/metrics", "/v1/status", "/v1/models", "/v1/models/scripted", "/v1/cache/stats", "/ready"})
    out.push_back(request(std::string("GET ") + path, "", close));
  for (std::string& input : out) input.insert(0, 1, '\2');
  out.push_back(out.front());
  out.back()[0] = '\1';  // the client half-closes
  return out;
}

std::vector<std::string> words() {
  return {"\r\n\r\n",
          "Transfer-Encoding: chunked\r\n",
          "Content-Length: 0\r\n",
          "Expect: 100-continue\r\n",
          "HEAD ",
          "OPTIONS ",
          "/v1/admin/quiesce",
          "/v1/admin/suspend",
          "/v1/models/",
          "/health",
          "\"stream\":true",
          "\"n\":8",
          "\"max_tokens\":1",
          "slow",
          "bytes",
          "<s>",
          "<|end|>",
          "\"echo\":true",
          "Origin: https://a.b\r\n",
          "traceparent: 00-",
          "\"timeout_ms\":1",
          "\"ignore_eos\":true"};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::fuzz;
  if (size == 0) return 0;
  static Live live;
  penstock::http::test::RawClient client(Live::socket());
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t piece = data[0] % 8 < 4 ? rest.size() : rest.size() / (data[0] % 8) + 1;
  while (!rest.empty() && client.try_send(rest.substr(0, piece)))
    rest.remove_prefix(std::min(piece, rest.size()));
  if (data[0] % 2 == 1) client.half_close();
  expect(client.read_to_end(), "a connection that does not end");
  const std::string& answer = client.received();
  expect(answer.empty() || answer.starts_with("HTTP/1.1 ") || answer.starts_with("HTTP/1.0 "),
         "an answer that is not HTTP");
  for (const char* line : {"HTTP/1.1 500", "HTTP/1.0 500"})
    expect(answer.find(line) == std::string::npos, answer);
  client.close();
  live.settle();
  return 0;
}
