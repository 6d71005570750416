// /v1/files: uploads, kept in the folder of state. Bodies are read and written on the database's thread.
#pragma once

#include "api/surface.h"
#include "base/json.h"
#include "jobs/file_store.h"

namespace penstock::api::openai {

/// Adds the routes. All must outlive the router.
void add_file_routes(http::Router& router, serve::Service& service, Ignored& ignored, jobs::FileStore& files);

/// What a multipart/form-data body asks to keep; `bytes` are of the body. Throws Error(kInvalidRequest) with
/// the part's name.
struct Upload {
  jobs::StoredFile file;
  std::string_view bytes;
  std::vector<std::string> ignored;
};
Upload read_upload(const http::Request& request);

}  // namespace penstock::api::openai
