#include "tensor/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "tensor/safetensors.h"
#include "tensor/table_json.h"

namespace penstock::tensor {
namespace {

namespace fs = std::filesystem;
using base::Code;
using base::Error;

constexpr std::string_view kIndexName = "model.safetensors.index.json";

Error fail(Code code, const std::string& expected, const std::string& got) {
  return Error(code, "[tensor.checkpoint] expected " + expected + "; got " + got);
}

bool is_model_file(const std::string& name, std::string_view suffix) {
  return name.ends_with(suffix) && (suffix == ".gguf" || name.starts_with("model"));
}

std::vector<fs::path> list_files(const fs::path& directory, std::string_view suffix) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (is_model_file(entry.path().filename().string(), suffix)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// N of a name like model-00001-of-0000N.safetensors; 0 for another name.
int shard_count(const std::string& stem) {
  const size_t at = stem.rfind("-of-");
  if (at == std::string::npos) return 0;
  int count = 0;
  const char* end = stem.data() + stem.size();
  const auto [stop, error] = std::from_chars(stem.data() + at + 4, end, count);
  return error == std::errc() && stop == end ? count : 0;
}

void check_all_shards(const std::vector<fs::path>& files) {
  for (const fs::path& file : files) {
    const int count = shard_count(file.stem().string());
    if (count <= 0) continue;
    const std::string stem = file.stem().string();
    const std::string tail = stem.substr(stem.rfind("-of-"));
    const auto present = std::count_if(files.begin(), files.end(), [&](const fs::path& other) {
      return other.stem().string().ends_with(tail);
    });
    if (present != count) {
      throw fail(Code::kNotFound, std::to_string(count) + " shards like " + file.string(),
                 std::to_string(present));
    }
  }
}

std::string nothing_found(const fs::path& path) {
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".incomplete")) return "only a partial download, " + name;
    if (name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth")) {
      return "no such file (PyTorch pickles such as " + name + " are not read)";
    }
  }
  return "no such file";
}

}  // namespace

std::shared_ptr<const Checkpoint> Checkpoint::open(const fs::path& path) {
  return open(path, {});
}

std::shared_ptr<const Checkpoint> Checkpoint::open(const fs::path& path,
                                                   std::span<const std::string> folders) {
  const std::shared_ptr<Checkpoint> out(new Checkpoint());
  out->path_ = path;
  out->open_files();
  for (const std::string& folder : folders) out->add_file(path / folder / "model.safetensors", folder + "/");
  return out;
}

void Checkpoint::open_files() {
  std::error_code error;
  if (!fs::exists(path_, error))
    throw fail(Code::kNotFound, "a model at " + path_.string(), "no such file or directory");
  if (!fs::is_directory(path_, error)) return add_file(path_);
  if (fs::exists(path_ / kIndexName, error)) return open_index(path_ / kIndexName);
  std::vector<fs::path> files = list_files(path_, ".safetensors");
  if (files.empty()) {
    files = list_files(path_, ".gguf");
    if (files.size() > 1) {
      throw fail(Code::kInvalidRequest, "one GGUF file in " + path_.string() + ", or the path of one",
                 std::to_string(files.size()) + ", such as " + files[0].filename().string());
    }
  }
  if (files.empty()) {
    throw fail(Code::kNotFound, "model*.safetensors or a .gguf file in " + path_.string(),
               nothing_found(path_));
  }
  check_all_shards(files);
  for (const fs::path& file : files) add_file(file);
}

std::shared_ptr<const Checkpoint> Checkpoint::in_memory(std::vector<OwnedTensor> tensors) {
  const std::shared_ptr<Checkpoint> out(new Checkpoint());
  out->path_ = "memory";
  out->owned_ = std::move(tensors);
  for (const OwnedTensor& owned : out->owned_) {
    StoredTensor tensor;
    tensor.name = owned.name;
    tensor.type = name(owned.dtype);
    tensor.dtype = owned.dtype;
    tensor.shape = owned.shape;
    tensor.bytes = owned.bytes;
    int64_t bytes = static_cast<int64_t>(size_bytes(owned.dtype));
    for (const int64_t n : owned.shape) bytes *= n;
    if (bytes != static_cast<int64_t>(owned.bytes.size())) {
      throw fail(Code::kInternal, std::to_string(bytes) + " bytes for " + owned.name,
                 std::to_string(owned.bytes.size()));
    }
    out->add(std::move(tensor), "memory");
  }
  return out;
}

void Checkpoint::add_file(const fs::path& path, const std::string& prefix) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  files_.push_back(file);
  const std::span<const std::byte> bytes = file->bytes();
  const bool is_gguf = bytes.size() >= 4 && std::memcmp(bytes.data(), "GGUF", 4) == 0;
  if (is_gguf || path.extension() == ".gguf") {
    gguf_ = Gguf::parse(bytes, path.string());
    for (const StoredTensor& tensor : gguf_->tensors()) add(tensor, path.string());
    return;
  }
  SafetensorsTable table = parse_safetensors(bytes, path.string());
  for (StoredTensor& tensor : table.tensors) {
    tensor.name = prefix + tensor.name;
    add(std::move(tensor), path.string());
  }
}

void Checkpoint::add(StoredTensor tensor, const std::string& file) {
  const std::string name = tensor.name;
  if (!tensors_.emplace(name, std::move(tensor)).second) {
    throw fail(Code::kCorrupt, "each tensor in one file of " + path_.string(),
               "a second " + name + " in " + file);
  }
}

void Checkpoint::open_index(const fs::path& index) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(index);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  const TableJson json = parse_table(text, index.string());
  const auto map = json.find("weight_map");
  if (!json.is_object() || map == json.end() || !map->is_object() || map->empty()) {
    throw fail(Code::kCorrupt, "an object weight_map in " + index.string(), "none");
  }
  std::set<std::string> shards;
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string())
      throw fail(Code::kCorrupt, "a file name for " + name + " in " + index.string(), shard.dump());
    shards.insert(shard.get<std::string>());
  }
  for (const std::string& shard : shards) {
    if (shard.empty() || shard.find_first_of("/\\") != std::string::npos) {
      throw fail(Code::kCorrupt, "plain file names in " + index.string(), shard);
    }
    std::error_code error;
    if (!fs::exists(index.parent_path() / shard, error)) {
      throw fail(Code::kNotFound, "the shard " + shard + " that " + index.string() + " lists",
                 "no such file");
    }
    add_file(index.parent_path() / shard);
  }
  for (const auto& [name, shard] : map->items()) {
    if (find(name) == nullptr) {
      throw fail(Code::kCorrupt,
                 name + " in " + shard.get<std::string>() + ", as " + index.string() + " says",
                 "no such tensor");
    }
  }
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void Checkpoint::drop(std::span<const std::byte> bytes) const {
  for (const std::shared_ptr<const MappedFile>& file : files_) file->drop(bytes);
}

}  // namespace penstock::tensor
