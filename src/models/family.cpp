#include "models/family.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "models/families/list.h"

namespace penstock::models {
namespace {

using base::Code;
using base::Error;

int common_prefix(std::string_view a, std::string_view b) {
  return static_cast<int>(
      std::mismatch(a.begin(), a.begin() + static_cast<long>(std::min(a.size(), b.size())), b.begin()).first -
      a.begin());
}

std::string near_types(std::string_view type) {
  std::vector<std::string_view> names;
  for (const Family& family : families()) names.push_back(family.model_type);
  std::stable_sort(names.begin(), names.end(),
                   [&](auto a, auto b) { return common_prefix(a, type) > common_prefix(b, type); });
  std::string list;
  for (const auto name : names) list += (list.empty() ? "" : ", ") + std::string(name);
  return list;
}

void refuse_remote_code(const base::Json& config) {
  for (const char* key : {"model_file"}) {
    if (config.contains(key)) {
      throw Error(Code::kUnsupported,
                  std::string("[models.family] expected a model without code of its own; got ") + key +
                      " in config.json, which is never run");
    }
  }
}

}  // namespace

std::span<const Family> families() {
  return kFamilies;
}

ModelSpec read_spec(const base::Json& config) {
  refuse_remote_code(config);
  const base::Json* text = &config;
  // A wrapper of several modalities keeps the decoder's own settings one level down.
  if (const auto nested = config.find("text_config"); nested != config.end() && nested->is_object())
    text = &*nested;
  std::string type;
  for (const base::Json* level : {text, &config}) {
    const auto it = level->find("model_type");
    if (type.empty() && it != level->end() && it->is_string()) type = it->get<std::string>();
  }
  if (type.empty())
    throw Error(Code::kInvalidRequest, "[models.family] expected model_type in config.json; got none");
  for (const Family& family : families()) {
    if (family.model_type != type) continue;
    ConfigReader reader(*text);
    ModelSpec spec = family.read(reader);
    spec.unknown_keys = reader.finish();
    return spec;
  }
  throw Error(Code::kUnsupported,
              "[models.family] expected a model_type among " + near_types(type) + "; got " + type);
}

}  // namespace penstock::models
