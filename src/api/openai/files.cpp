#include "api/openai/files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "api/openai/errors.h"
#include "api/page.h"
#include "api/trace.h"
#include "base/error.h"
#include "base/json.h"
#include "base/unix_time.h"
#include "base/utf8.h"
#include "http/multipart.h"

namespace penstock::api::openai {
namespace {

using base::Code;
using base::Error;
using base::Json;
using jobs::StoredFile;

constexpr std::array<std::string_view, 6> kPurposes = {"assistants", "batch",     "fine-tune",
                                                       "vision",     "user_data", "evals"};
constexpr int64_t kLeastSeconds = 3600, kMostSeconds = 2592000;  // that a file may be kept for
constexpr size_t kMaxFileNameBytes = 512;
constexpr PageLimits kLimits = {10000, 10000};

Json file_json(const StoredFile& file) {
  Json json = {{"id", file.id},         {"object", "file"},
               {"bytes", file.bytes},   {"created_at", file.created},
               {"filename", file.name}, {"purpose", file.purpose},
               {"status", "processed"}};
  json["expires_at"] = file.expires == 0 ? Json() : Json(file.expires);
  return json;
}

Error wrong(const std::string& part, const std::string& expected) {
  return {Code::kInvalidRequest, "[openai.files] expected the part " + part + " to be " + expected, part};
}

int64_t seconds_of(std::string_view text) {
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || seconds < kLeastSeconds ||
      seconds > kMostSeconds)
    throw wrong("expires_after[seconds]", "a whole number from 3600 to 2592000");
  return seconds;
}

/// Answers with what `encode` makes of a result, or with the error.
template <class T>
auto answer(const ExchangePtr& exchange, http::Response (*encode)(T)) {
  return [exchange, encode](std::variant<T, Error> result) {
    if (const auto* error = std::get_if<Error>(&result)) return exchange->respond(error_response(*error));
    exchange->respond(encode(std::move(std::get<T>(result))));
  };
}

http::Response encode_file(StoredFile file) {
  return http::json_response(200, file_json(file));
}

http::Response encode_content(std::vector<jobs::FileBody> bodies) {
  http::Response response;
  response.content_type = "application/octet-stream";
  response.body = std::move(bodies.front().bytes);
  return response;
}

const std::string& id_of(const http::Request& request) {
  return request.params.at("id");
}

void list(jobs::FileStore& files, const http::Request& request, const ExchangePtr& exchange) {
  const Query query(request);
  files.list(query.text("purpose").value_or(""),
             [exchange, query](const std::variant<std::vector<StoredFile>, Error>& listed) {
               try {
                 if (const auto* error = std::get_if<Error>(&listed)) throw *error;
                 std::vector<Json> items;
                 for (const StoredFile& file : std::get<std::vector<StoredFile>>(listed))
                   items.push_back(file_json(file));
                 exchange->respond(http::json_response(200, page_of(std::move(items), query, kLimits)));
               } catch (const Error& error) {
                 exchange->respond(error_response(error));
               }
             });
}

void erase(jobs::FileStore& files, const http::Request& request, const ExchangePtr& exchange) {
  files.erase(id_of(request), [exchange, id = id_of(request)](const std::optional<Error>& error) {
    if (error) return exchange->respond(error_response(*error));
    exchange->respond(http::json_response(200, {{"id", id}, {"object", "file"}, {"deleted", true}}));
  });
}

}  // namespace

Upload read_upload(const http::Request& request) {
  Upload upload;
  bool has_file = false;
  for (const http::FormPart& part : http::parse_form(request.header("content-type"), request.body)) {
    if (part.name == "file") {
      if (has_file || part.filename.value_or("").empty()) throw wrong("file", "one file with a name");
      if (part.filename->size() > kMaxFileNameBytes || !base::is_utf8(*part.filename))
        throw wrong("file", "named by at most 512 bytes of UTF-8");
      has_file = true;
      upload.file.name = *part.filename;
      upload.bytes = part.data;
    } else if (part.name == "purpose") {
      upload.file.purpose = part.data;
    } else if (part.name == "expires_after[seconds]") {
      upload.file.expires = base::unix_seconds() + seconds_of(part.data);
    } else if (part.name == "expires_after[anchor]") {
      if (part.data != "created_at") throw wrong(part.name, "created_at");
    } else {
      upload.ignored.push_back(part.name);
    }
  }
  if (!has_file) throw wrong("file", "one file with a name; got none");
  if (std::find(kPurposes.begin(), kPurposes.end(), upload.file.purpose) == kPurposes.end())
    throw wrong("purpose", "assistants, batch, fine-tune, vision, user_data or evals");
  return upload;
}

void add_file_routes(http::Router& router, serve::Service& service, Ignored& ignored,
                     jobs::FileStore& files) {
  Surface surface(router, service, ignored, error_response);
  surface.add(
      "POST", "/v1/files", [&files, &ignored](const http::Request& request, const ExchangePtr& exchange) {
        Upload upload = read_upload(request);
        auto headers = answer_headers(origin_of(request, "openai_files"), upload.ignored, ignored);
        files.add(std::move(upload.file), std::string(upload.bytes),
                  [exchange, headers](const std::variant<StoredFile, Error>& added) {
                    const auto* error = std::get_if<Error>(&added);
                    http::Response response =
                        error != nullptr ? error_response(*error) : encode_file(std::get<StoredFile>(added));
                    response.headers = headers;
                    exchange->respond(std::move(response));
                  });
      });
  surface.add("GET", "/v1/files", [&files](const http::Request& request, const ExchangePtr& exchange) {
    list(files, request, exchange);
  });
  surface.add("GET", "/v1/files/{id}", [&files](const http::Request& request, const ExchangePtr& exchange) {
    files.find(id_of(request), answer(exchange, encode_file));
  });
  surface.add("GET", "/v1/files/{id}/content",
              [&files](const http::Request& request, const ExchangePtr& exchange) {
                files.read({id_of(request)}, answer(exchange, encode_content));
              });
  surface.add("DELETE", "/v1/files/{id}",
              [&files](const http::Request& request, const ExchangePtr& exchange) {
                erase(files, request, exchange);
              });
}

}  // namespace penstock::api::openai
