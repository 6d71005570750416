// A database with the tables of jobs in a scratch folder, and answers that are waited for.
#pragma once

#include <future>
#include <string>
#include <variant>

#include "jobs/batches.h"
#include "jobs/file_store.h"
#include "unit/db/database_fixture.h"

namespace penstock::jobs::testing {

inline std::vector<db::Schema> schemas(const std::filesystem::path& file) {
  return {FileStore::schema(file), Batches::schema()};
}

/// Calls `ask` with a callback and waits for what that gets; throws its error.
template <class T>
T answer_of(const std::function<void(FileStore::On<T>)>& ask) {
  std::promise<std::variant<T, base::Error>> got;
  ask([&got](std::variant<T, base::Error> result) { got.set_value(std::move(result)); });
  auto result = got.get_future().get();
  if (const auto* error = std::get_if<base::Error>(&result)) throw *error;
  return std::get<T>(std::move(result));
}

inline StoredFile add(FileStore& files, const std::string& bytes, const std::string& purpose = "batch",
                      int64_t expires = 0) {
  return answer_of<StoredFile>([&](auto on) {
    StoredFile file;
    file.name = "a/../name.txt";
    file.purpose = purpose;
    file.expires = expires;
    files.add(file, bytes, on);
  });
}

inline FileBody read(FileStore& files, const std::string& id) {
  return answer_of<std::vector<FileBody>>([&](auto on) { files.read({id}, on); }).front();
}

}  // namespace penstock::jobs::testing
