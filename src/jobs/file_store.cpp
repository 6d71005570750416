#include "jobs/file_store.h"

#include <array>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/random_id.h"
#include "base/unix_time.h"
#include "base/whole_file.h"
#include "jobs/files_table.h"

namespace penstock::jobs {
namespace {

using base::Code;
using base::Error;
using db::Connection;
using db::Database;
namespace fs = std::filesystem;

StoredFile found(Connection& connection, const std::string& id, const std::string& param = "file_id") {
  auto file = files_table::find(connection, id, base::unix_seconds());
  if (!file)
    throw Error(Code::kNotFound, "[jobs.files] expected an uploaded file; got none with the id " + id, param);
  return std::move(*file);
}

void remove_body(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) base::log::warn("{} is not removed: {}", path.string(), error.message());
}

/// Bodies whose row was never committed, or went before they did.
void remove_orphans(Connection& connection, const fs::path& folder) {
  std::set<std::string> known;
  for (const StoredFile& file : files_table::list(connection, "", 0)) known.insert(file.id);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (!known.contains(entry.path().filename().string())) remove_body(entry.path());
}

}  // namespace

fs::path FileStore::folder_of(const fs::path& database_file) {
  return database_file.parent_path() / "files";
}

db::Schema FileStore::schema(const fs::path& database_file) {
  return {files_table::migrations(), [folder = folder_of(database_file)](Connection& connection) {
            files_table::erase_expired(connection, base::unix_seconds());
            remove_orphans(connection, folder);
          }};
}

StoredFile FileStore::find(Connection& connection, const std::string& id, const std::string& param) const {
  return found(connection, id, param);
}

StoredFile FileStore::add(Connection& connection, StoredFile file, std::string_view bytes) const {
  file.id = base::random_id("file-");
  file.created = base::unix_seconds();
  file.bytes = static_cast<int64_t>(bytes.size());
  fs::create_directories(folder_);
  base::write_whole(path_of(file.id), std::array{bytes}, base::Durable::kYes);
  files_table::insert(connection, file);
  return file;
}

FileBody FileStore::read(Connection& connection, const std::string& id) const {
  FileBody body{found(connection, id), {}};
  const auto size = static_cast<size_t>(body.file.bytes);
  body.bytes = base::read_front(path_of(body.file.id), size);
  if (body.bytes.size() == size) return body;
  throw Error(Code::kCorrupt, "[jobs.files] expected " + std::to_string(size) + " bytes of " + id + "; got " +
                                  std::to_string(body.bytes.size()));
}

void FileStore::add(StoredFile file, std::string bytes, On<StoredFile> on_added) {
  database_.submit(
      [this, file = std::move(file), bytes = std::move(bytes),
       on_added](Connection& connection) -> Database::Reply {
        return [added = add(connection, file, bytes), on_added] { on_added(added); };
      },
      [on_added](const Error& error) { on_added(error); });
}

void FileStore::find(const std::string& id, On<StoredFile> on_found) {
  database_.submit(
      [id, on_found](Connection& connection) -> Database::Reply {
        return [file = found(connection, id), on_found] { on_found(file); };
      },
      [on_found](const Error& error) { on_found(error); });
}

void FileStore::read(const std::vector<std::string>& ids, On<std::vector<FileBody>> on_read) {
  database_.submit(
      [this, ids, on_read](Connection& connection) -> Database::Reply {
        auto bodies = std::make_shared<std::vector<FileBody>>();
        for (const std::string& id : ids) bodies->push_back(read(connection, id));
        return [bodies, on_read] { on_read(std::move(*bodies)); };
      },
      [on_read](const Error& error) { on_read(error); });
}

void FileStore::list(const std::string& purpose, On<std::vector<StoredFile>> on_listed) {
  database_.submit(
      [purpose, on_listed](Connection& connection) -> Database::Reply {
        return [files = files_table::list(connection, purpose, base::unix_seconds()), on_listed] {
          on_listed(files);
        };
      },
      [on_listed](const Error& error) { on_listed(error); });
}

/// The row first: a body without one is removed at the next opening, a row without its body would be a lie.
void FileStore::erase(const std::string& id, OnDone on_done) {
  database_.submit(
      [this, id, on_done](Connection& connection) -> Database::Reply {
        const StoredFile file = found(connection, id);
        files_table::erase(connection, file.id);
        return [path = path_of(file.id), on_done] {
          remove_body(path);
          on_done(std::nullopt);
        };
      },
      [on_done](const Error& error) { on_done(error); });
}

}  // namespace penstock::jobs
