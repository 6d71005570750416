// POST /v1/responses on its way to serve: what it refers to is looked up, then it is submitted. Each step
// runs where the one before it ended: on an io thread, or on the database's.
#pragma once

#include <memory>

#include "api/responses/decode.h"
#include "api/responses/items.h"
#include "api/responses/live_runs.h"
#include "api/responses/run.h"
#include "api/stores.h"
#include "api/surface.h"
#include "serve/service.h"

namespace penstock::api::responses {

/// What all requests of this surface share. Outlives them.
struct Parts {
  Parts(serve::Service& its_service, Ignored& its_ignored, http::StreamOptions its_stream,
        const Stores& stores)
      : service(its_service),
        ignored(its_ignored),
        stream(std::move(its_stream)),
        store(stores.responses),
        files(stores.files) {}

  serve::Service& service;
  Ignored& ignored;
  http::StreamOptions stream;
  serve::ResponseStore& store;
  jobs::FileStore& files;
  LiveRuns live;
};

class Creation : public std::enable_shared_from_this<Creation> {
 public:
  Creation(std::shared_ptr<Parts> parts, Create create, chat::Origin origin, ExchangePtr exchange);

  /// Throws what can be seen at once; later errors are answered.
  void start();

 private:
  void look_up();
  void with_history(serve::History history);
  void with_items(std::vector<base::Json> history);
  void run(std::vector<base::Json> items, const std::map<std::string, FileText>& files);
  std::shared_ptr<Run> make_run();
  void submit_background(const std::shared_ptr<Run>& run);
  void guarded(const std::function<void()>& step);

  const std::shared_ptr<Parts> parts_;
  const std::string request_id_;  // of its client
  Create create_;
  const ExchangePtr exchange_;
  std::string model_;  // that will serve it
};

/// An id that says of itself that the response is not kept.
bool is_unstored_id(const std::string& id);

}  // namespace penstock::api::responses
