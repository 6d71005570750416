// What the surfaces keep for their clients beyond a request, and the models that requests may change. Thread-safe, all of it; owned by the program,
// and there as long as the server.
#pragma once

#include "jobs/batches.h"
#include "jobs/file_store.h"
#include "library/library.h"
#include "serve/response_store.h"

namespace penstock::api {

struct Stores {
  serve::ResponseStore& responses;
  jobs::FileStore& files;
  jobs::Batches& batches;
  library::Library& library;
};

}  // namespace penstock::api
