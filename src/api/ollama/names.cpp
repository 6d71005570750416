#include "api/ollama/names.h"

#include <optional>
#include <string_view>

#include "base/error.h"
#include "library/names.h"

namespace penstock::api::ollama {
namespace {

using base::Code;
using base::Error;

std::string_view without_host(std::string_view name) {
  for (const std::string_view host : {"hf.co/", "huggingface.co/"}) {
    if (name.starts_with(host)) return name.substr(host.size());
  }
  return name;
}

std::optional<Named> as_it_stands(const serve::Service& service, const std::string& name) {
  if (name.empty()) return std::nullopt;
  try {
    return Named{name, name, service.pool().id_of(name)};
  } catch (const Error& error) {
    if (error.code() != Code::kNotFound) throw;
    return std::nullopt;
  }
}

std::optional<Named> with_profile(const serve::Service& service, const std::string& name) {
  const size_t tag = library::tag_of(name);
  if (tag == std::string::npos || !service.profiles().contains(name.substr(tag))) return std::nullopt;
  auto named = as_it_stands(service, name.substr(0, tag - 1));
  if (named) named->request += name.substr(tag - 1);
  return named;
}

std::optional<Named> find(const serve::Service& service, const std::string& name) {
  if (auto named = as_it_stands(service, name)) return named;
  if (auto named = with_profile(service, name)) return named;
  const std::string bare(library::without_latest(name));
  if (bare != name) return as_it_stands(service, bare);
  return library::tag_of(name) == std::string::npos ? as_it_stands(service, name + ":latest") : std::nullopt;
}

}  // namespace

Named resolve(const serve::Service& service, const std::string& name) {
  if (auto named = find(service, name)) return *named;
  const std::string bare(without_host(name));
  if (bare != name) {
    if (auto named = find(service, bare)) return *named;
  }
  throw Error(Code::kNotFound, "[api.model] model '" + name + "' not found", "model");
}

std::string plain_name(std::string name) {
  return std::string(library::without_latest(without_host(name)));
}

}  // namespace penstock::api::ollama
