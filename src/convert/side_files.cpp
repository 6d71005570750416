#include "convert/side_files.h"

#include <algorithm>
#include <array>

#include "convert/gguf_files.h"
#include "models/family.h"

namespace penstock::convert {
namespace {

namespace fs = std::filesystem;
using base::Json;

bool is_side_file(const fs::path& path) {
  static constexpr std::array<std::string_view, 5> kKinds = {".json", ".jinja", ".txt", ".model",
                                                             ".tiktoken"};
  const std::string name = path.filename().string();
  if (name == "config.json" || name.ends_with(".index.json")) return false;
  if (name.starts_with("LICENSE") || name.starts_with("NOTICE")) return true;
  return std::find(kKinds.begin(), kKinds.end(), path.extension().string()) != kKinds.end();
}

void add_folder(const fs::path& folder, const std::string& prefix, std::vector<SideFile>& out) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file() && is_side_file(entry.path())) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  for (const fs::path& path : found) out.push_back({prefix + path.filename().string(), "", path});
}

}  // namespace

Json make_config(const models::ModelFiles& files, const Recipe& recipe) {
  const tensor::Gguf* gguf = files.checkpoint->gguf();
  Json config = gguf != nullptr ? gguf_model_config(files) : files.config;
  for (const char* key : {"quantization", "quantization_config"}) {
    config.erase(key);
    if (config.contains("text_config") && config["text_config"].is_object()) config["text_config"].erase(key);
  }
  if (!recipe.dtype.empty()) {
    const bool newer = config.contains("dtype") && !config.contains("torch_dtype");
    config[newer ? "dtype" : "torch_dtype"] = recipe.dtype;
  }
  if (!recipe.quantization.is_null()) {
    config["quantization"] = recipe.quantization;
    config["quantization_config"] = recipe.quantization;
  }
  return config;
}

std::vector<SideFile> make_side_files(const models::ModelFiles& files) {
  if (const tensor::Gguf* gguf = files.checkpoint->gguf()) return gguf_side_files(*gguf);
  std::vector<SideFile> out;
  add_folder(files.path, "", out);
  const fs::path more = files.path / "additional_chat_templates";
  if (fs::is_directory(more)) add_folder(more, "additional_chat_templates/", out);
  return out;
}

}  // namespace penstock::convert
