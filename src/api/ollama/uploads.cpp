// /api/blobs: uploads by their digest.
#include <charconv>
#include <utility>

#include "api/ollama/changes.h"
#include "api/ollama/errors.h"
#include "api/ollama/routes.h"
#include "api/ollama/worker.h"
#include "base/error.h"

namespace penstock::api::ollama {
namespace {

/// What is here already is read and dropped, so that its client is answered as if it had been needed.
class KnownBlob : public http::BodySink {
 public:
  bool is_ready() override { return true; }
  void write(std::string) override {}
  void finish(ExchangePtr exchange) override { exchange->respond(http::Response{200, {}, "", ""}); }
};

class NewBlob : public http::BodySink {
 public:
  explicit NewBlob(std::shared_ptr<library::Blobs::Upload> upload) : upload_(std::move(upload)) {}

  bool is_ready() override { return upload_->is_ready(); }
  void write(std::string piece) override { upload_->write(std::move(piece)); }
  void finish(ExchangePtr exchange) override {
    upload_->finish([exchange](const std::exception_ptr& why) {
      exchange->respond(why == nullptr ? http::Response{201, {}, "", ""} : error_response(error_of(why)));
    });
  }

 private:
  const std::shared_ptr<library::Blobs::Upload> upload_;
};

uint64_t announced_bytes(const http::Request& head) {
  const std::string_view text = head.header("Content-Length");
  uint64_t bytes = 0;
  std::from_chars(text.data(), text.data() + text.size(), bytes);
  return bytes;
}

std::shared_ptr<http::BodySink> open_upload(const Context& context, const http::Request& head,
                                            std::function<void()> wake) {
  require_change(context, head);
  const std::string sha256 = library::Blobs::digest_of(head.params.at("digest"));
  library::Blobs& blobs = context.library.blobs();
  if (blobs.has(sha256)) return std::make_shared<KnownBlob>();
  return std::make_shared<NewBlob>(blobs.receive(sha256, announced_bytes(head), std::move(wake)));
}

void look(const Context& context, const http::Request& request, const ExchangePtr& exchange) {
  context.library.require_change();
  const std::string sha256 = library::Blobs::digest_of(request.params.at("digest"));
  exchange->respond(http::Response{context.library.blobs().has(sha256) ? 200 : 404, {}, "", ""});
}

}  // namespace

void add_blob_routes(http::Router& router, Surface& surface, const ContextPtr& context) {
  surface.add("HEAD", "/api/blobs/{digest}", [context](const auto& request, const ExchangePtr& exchange) {
    look(*context, request, exchange);
  });
  router.add_upload("POST", "/api/blobs/{digest}",
                    {context->library.max_upload_bytes(), [context](const http::Request& head, auto wake) {
                       return open_upload(*context, head, std::move(wake));
                     }});
}

}  // namespace penstock::api::ollama
