// Files that clients uploaded, and those that batches write: a row in the database and a body in a folder
// beside it, under a name that the server made. Thread-safe; answers come on the database's thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "db/database.h"

namespace penstock::jobs {

struct StoredFile {
  std::string id;
  std::string name;     // as its client calls it; never a path here
  std::string purpose;  // as the API names it
  int64_t bytes = 0;
  int64_t created = 0;  // unix seconds
  int64_t expires = 0;  // unix seconds; 0: never
};

/// A file with its body.
struct FileBody {
  StoredFile file;
  std::string bytes;
};

class FileStore {
 public:
  template <class T>
  using On = std::function<void(std::variant<T, base::Error>)>;
  using OnDone = std::function<void(std::optional<base::Error>)>;

  /// Bodies lie in `files` beside the database, which must outlive it and have its schema.
  explicit FileStore(db::Database& database) : database_(database), folder_(folder_of(database.file())) {}

  /// Its tables, and at each opening: expired files go, and bodies that no row knows.
  static db::Schema schema(const std::filesystem::path& database_file);

  /// Takes an id and the time of now; what was told of survives a crash.
  void add(StoredFile file, std::string bytes, On<StoredFile> on_added);

  // kNotFound for an unknown or expired id.
  void find(const std::string& id, On<StoredFile> on_found);
  void read(const std::vector<std::string>& ids, On<std::vector<FileBody>> on_read);
  void erase(const std::string& id, OnDone on_done);

  /// Oldest first; `purpose` empty: all.
  void list(const std::string& purpose, On<std::vector<StoredFile>> on_listed);

  // The same within work of the database: for what must be committed together.
  StoredFile add(db::Connection& connection, StoredFile file, std::string_view bytes) const;
  FileBody read(db::Connection& connection, const std::string& id) const;
  /// `param`: the field that names it.
  StoredFile find(db::Connection& connection, const std::string& id, const std::string& param) const;

 private:
  static std::filesystem::path folder_of(const std::filesystem::path& database_file);
  std::filesystem::path path_of(const std::string& id) const { return folder_ / id; }

  db::Database& database_;
  const std::filesystem::path folder_;
};

}  // namespace penstock::jobs
