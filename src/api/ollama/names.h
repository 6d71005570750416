// How the names of requests meet the models of the server. Reads the pool and the profiles; any thread.
#pragma once

#include <string>

#include "serve/service.h"

namespace penstock::api::ollama {

/// What a name stands for.
struct Named {
  std::string request;  // what serve::Service takes: with the profile
  std::string name;     // of the model, as the server knows it
  std::string id;       // of the pool
};

/// The first of these that is there: the name as it stands; `name:profile`; the name without ":latest" or
/// with it; each of that without a leading "hf.co/". Throws Error(kNotFound) in the words of Ollama.
Named resolve(const serve::Service& service, const std::string& name);

/// A name that a download or a new model is to get: without ":latest" and "hf.co/".
std::string plain_name(std::string name);

}  // namespace penstock::api::ollama
