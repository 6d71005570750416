#include "store/model_files.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"

namespace penstock::store {
namespace {

constexpr std::string_view kIndex = "model.safetensors.index.json";

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return result;
}

bool is_split_gguf(std::string_view file) {
  const auto of = file.rfind("-of-");
  return of != std::string_view::npos && file.ends_with(".gguf") && of >= 6 && file.size() == of + 4 + 5 + 5;
}

/// True when `word` stands in the file name with no letter, digit or underscore beside it (q4_k is not in
/// q4_k_m).
bool has_word(std::string_view file, std::string_view word) {
  const std::string text = lower(file.substr(file.rfind('/') + 1)), wanted = lower(word);
  const auto inside = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) {
    const size_t end = at + wanted.size();
    if ((at == 0 || !inside(text[at - 1])) && (end == text.size() || !inside(text[end]))) return true;
  }
  return false;
}

std::set<std::string> shards_of_index(const std::filesystem::path& index) {
  std::ifstream file(index, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const base::Json json = base::parse_python_json(text, index.string());
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    throw base::Error(base::Code::kCorrupt,
                      "[store.inspect] expected weight_map in " + index.string() + "; it is missing");
  }
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : json["weight_map"].items()) {
    if (!shard.is_string()) {
      throw base::Error(base::Code::kCorrupt,
                        "[store.inspect] expected file names in weight_map of " + index.string());
    }
    shards.insert(shard.get<std::string>());
  }
  return shards;
}

bool has_bytes(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && std::filesystem::file_size(path, error) > 0;
}

/// Empty when the folder is a whole MLX directory, otherwise what is missing.
std::string mlx_problem(const std::filesystem::path& folder, bool has_safetensors) {
  if (!has_bytes(folder / "config.json")) return "config.json is missing";
  if (!std::filesystem::exists(folder / kIndex)) return has_safetensors ? "" : "no *.safetensors is there";
  try {
    for (const auto& shard : shards_of_index(folder / kIndex)) {
      if (!has_bytes(folder / shard)) return shard + " is missing, which " + std::string(kIndex) + " names";
    }
  } catch (const base::Error& error) {
    return std::string(error.text());
  }
  return "";
}

/// Of a module of sentence-transformers, in a folder such as "1_Pooling".
bool is_module_file(std::string_view file) {
  const auto slash = file.find('/');
  if (slash == std::string_view::npos || std::isdigit(static_cast<unsigned char>(file[0])) == 0) return false;
  const std::string_view name = file.substr(slash + 1);
  return file.substr(0, slash).find('_') != std::string_view::npos &&
         (name == "config.json" || name == "model.safetensors");
}

bool is_wanted_beside_weights(std::string_view file) {
  static constexpr std::string_view kNames[] = {"config.json",
                                                "generation_config.json",
                                                "tokenizer.json",
                                                "tokenizer_config.json",
                                                "special_tokens_map.json",
                                                "added_tokens.json",
                                                "vocab.json",
                                                "merges.txt",
                                                "tokenizer.model",
                                                "tekken.json",
                                                "chat_template.jinja",
                                                "chat_template.json",
                                                "preprocessor_config.json",
                                                "processor_config.json",
                                                "video_preprocessor_config.json",
                                                "modules.json",
                                                "sentence_bert_config.json",
                                                "config_sentence_transformers.json",
                                                kIndex};
  if (std::find(std::begin(kNames), std::end(kNames), file) != std::end(kNames)) return true;
  if (file.starts_with("additional_chat_templates/") && file.ends_with(".jinja")) return true;
  return (file.find('/') == std::string_view::npos && file.ends_with(".tiktoken")) || is_module_file(file);
}

}  // namespace

std::string_view name(Kind kind) {
  return kind == Kind::kMlxDirectory ? "mlx" : "gguf";
}

Inspection inspect_folder(const std::filesystem::path& folder) {
  Inspection result;
  bool has_safetensors = false;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
    const std::string file = entry.path().lexically_relative(folder).generic_string();
    if (!has_bytes(entry.path())) continue;
    if (file.ends_with(".gguf")) result.gguf_files.push_back(file);
    if (file.ends_with(".safetensors") && file.find('/') == std::string::npos) has_safetensors = true;
  }
  std::sort(result.gguf_files.begin(), result.gguf_files.end());
  result.problem = mlx_problem(folder, has_safetensors);
  if (result.problem.empty()) {
    result.complete = true;
  } else if (!has_safetensors && !result.gguf_files.empty() && !std::filesystem::exists(folder / kIndex)) {
    result = {true, Kind::kGgufFile, std::move(result.gguf_files), ""};
  }
  return result;
}

std::string pick_gguf(const std::vector<std::string>& files, std::string_view wanted, std::string_view repo) {
  static constexpr std::string_view kOrder[] = {"Q4_K_M", "Q4_K_S", "Q4_0", "Q4_1", "Q5_K_M",
                                                "Q8_0",   "BF16",   "F16",  "F32"};
  std::vector<std::string> all;
  std::copy_if(files.begin(), files.end(), std::back_inserter(all), [](const std::string& file) {
    return lower(file).ends_with(".gguf") && lower(file).find("mmproj") == std::string::npos;
  });
  std::vector<std::string> fits;
  const auto keep = [&](auto test) { std::copy_if(all.begin(), all.end(), std::back_inserter(fits), test); };
  if (wanted.ends_with(".gguf")) {
    keep([&](const std::string& file) { return file == wanted; });
  } else if (!wanted.empty()) {
    keep([&](const std::string& file) { return has_word(file, wanted); });
  } else if (all.size() == 1) {
    fits = all;
  }
  for (auto quant = std::begin(kOrder); wanted.empty() && fits.empty() && quant != std::end(kOrder);
       ++quant) {
    keep([&](const std::string& file) { return has_word(file, *quant); });
  }
  if (fits.empty() || (fits.size() > 1 && !is_split_gguf(fits.front()))) {
    throw base::Error(base::Code::kNotFound,
                      fmt::format("[store.pick] expected one GGUF file{}{} in {}; it has: {}",
                                  wanted.empty() ? "" : " for ", wanted, repo,
                                  all.empty() ? "none" : fmt::format("{}", fmt::join(all, ", "))));
  }
  if (is_split_gguf(fits.front())) {
    throw base::Error(
        base::Code::kUnsupported,
        fmt::format("[store.pick] expected a GGUF of one file; {} is split in parts", fits.front()));
  }
  return fits.front();
}

std::vector<std::string> files_to_fetch(const std::vector<std::string>& files, std::string_view wanted,
                                        std::string_view repo) {
  const auto is_weights = [](const std::string& file) {
    return file.ends_with(".safetensors") && file.find('/') == std::string::npos;
  };
  if (!wanted.empty() || std::none_of(files.begin(), files.end(), is_weights))
    return {pick_gguf(files, wanted, repo)};
  const bool has_model = std::any_of(files.begin(), files.end(), [&](const std::string& file) {
    return is_weights(file) && file.starts_with("model");
  });
  std::vector<std::string> result;
  for (const auto& file : files) {
    // Some repositories carry a second copy of the weights under another name (consolidated.safetensors).
    if (is_wanted_beside_weights(file) || (is_weights(file) && (!has_model || file.starts_with("model")))) {
      result.push_back(file);
    }
  }
  if (std::find(result.begin(), result.end(), "config.json") == result.end()) {
    throw base::Error(base::Code::kNotFound,
                      fmt::format("[store.pick] expected config.json in {}; it has none", repo));
  }
  return result;
}

}  // namespace penstock::store
