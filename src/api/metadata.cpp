#include "api/metadata.h"

namespace penstock::api {
namespace {

using base::Json;

constexpr size_t kMaxEntries = 16, kMaxKeyBytes = 64, kMaxValueBytes = 512;

bool is_metadata(const Json& metadata) {
  if (!metadata.is_object() || metadata.size() > kMaxEntries) return false;
  for (const auto& [key, value] : metadata.items()) {
    if (key.size() > kMaxKeyBytes || !value.is_string()) return false;
    if (value.get_ref<const std::string&>().size() > kMaxValueBytes) return false;
  }
  return true;
}

}  // namespace

Json read_metadata(const Reader& reader) {
  const Json* metadata = reader.find("metadata");
  if (metadata == nullptr) return Json::object();
  if (!is_metadata(*metadata))
    reader.reject("metadata", "up to 16 texts of up to 512 bytes, with names of up to 64");
  return *metadata;
}

}  // namespace penstock::api
