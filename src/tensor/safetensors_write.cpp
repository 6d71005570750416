#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "tensor/safetensors.h"

namespace penstock::tensor {
namespace {

constexpr size_t kHeaderAlignment = 8;

base::Error failed(const std::filesystem::path& path, const std::string& action) {
  return base::Error(base::Code::kIo, "[tensor.write_safetensors] expected to " + action + " " +
                                          path.string() + "; got " + std::strerror(errno));
}

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

void write_all(const std::filesystem::path& path, const std::string& head,
               std::span<const NamedView> tensors) {
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "wb"));
  if (!file) throw failed(path, "create");
  bool ok = std::fwrite(head.data(), 1, head.size(), file.get()) == head.size();
  for (const NamedView& tensor : tensors) {
    const std::span<const std::byte> bytes = tensor.view.bytes;
    ok = ok && (bytes.empty() || std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size());
  }
  if (!ok || std::fflush(file.get()) != 0 || ::fsync(::fileno(file.get())) != 0) throw failed(path, "write");
}

}  // namespace

std::string safetensors_head(std::span<const TableEntry> entries,
                             const std::map<std::string, std::string>& metadata) {
  base::Json header = base::Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const TableEntry& entry : entries) {
    header[entry.name] = {
        {"dtype", entry.type}, {"shape", entry.shape}, {"data_offsets", {offset, offset + entry.size_bytes}}};
    offset += entry.size_bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

void write_safetensors(const std::filesystem::path& path, std::span<const NamedView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::filesystem::path partial = path;
  partial += "." + std::to_string(::getpid()) + ".incomplete";
  std::vector<TableEntry> entries;
  for (const auto& [name, view] : tensors) {
    entries.push_back({name, std::string(tensor::name(view.dtype)), view.shape, view.bytes.size()});
  }
  try {
    write_all(partial, safetensors_head(entries, metadata), tensors);
    if (std::rename(partial.c_str(), path.c_str()) != 0) throw failed(path, "rename into");
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(partial, ignored);
    throw;
  }
}

}  // namespace penstock::tensor
