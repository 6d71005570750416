// The models that a server offers beyond what it was started with, and what requests may do to them: names,
// uploads, downloads, removal. What they did outlives the process. Thread-safe; owns the threads of its jobs.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "library/blobs.h"
#include "library/entry.h"
#include "library/facts.h"
#include "pool/model_pool.h"
#include "serve/workers.h"
#include "store/registry.h"

namespace penstock::library {

struct LibraryOptions {
  std::filesystem::path folder;  // private to one server; made when it is first needed
  bool may_change = false;       // false: nothing of the folder is offered, and nothing is written
  uint64_t max_upload_bytes = 0;
  std::shared_ptr<store::Registry> registry;  // null: there is no store, as under a script
  /// What loads the files under that name.
  std::function<pool::ModelSource(const store::Located&, const std::string& name)> make_source;
  std::map<std::string, store::Located> located;       // files of the pool's first models, by id
  std::function<bool(std::string_view)> is_tag_taken;  // tags that mean something else; null: none are
};

/// A model as it is listed: each name of its own once.
struct Listing {
  std::string name;  // without ":latest"
  pool::ModelEntry card;
  Facts facts;
  Preset preset;
  std::string parent;  // the model that it is another name of
  int64_t modified_ms = 0;
};

struct CreateOrder {
  std::string name;
  std::string from;              // another model, or
  std::vector<EntryFile> files;  // uploads
  Preset preset;
};

using OnStatus = std::function<void(const std::string&)>;

class Library {
 public:
  /// Offers what the folder holds through `models`. Throws nothing for entries that can be offered no more:
  /// they are left out with a warning.
  Library(std::shared_ptr<pool::ModelPool> models, LibraryOptions options);
  ~Library();  // stop()
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  bool may_change() const { return options_.may_change; }
  /// Throws Error(kForbidden) unless requests may.
  void require_change() const;
  uint64_t max_upload_bytes() const { return options_.max_upload_bytes; }
  Blobs& blobs() { return blobs_; }

  /// Runs a task on a thread for long ones (downloads), or short ones. Throws Error(kOverloaded) when too
  /// many wait.
  void post_long(serve::Workers::Task task);
  void post(serve::Workers::Task task);

  /// What a model of this name says for requests that do not. Cheap.
  Preset preset(std::string_view name) const;

  // What follows opens files, or downloads them: on a worker.

  std::vector<Listing> list();
  /// Throws Error(kNotFound).
  Listing find(const std::string& name);

  /// Makes `name` another name of the model that answers to `source`. Throws Error(kNotFound),
  /// Error(kInvalidRequest) for a name that is none or is taken.
  void copy(const std::string& source, const std::string& name);

  /// Throws Error(kInvalidRequest) for what it will not make a model of, saying what is wrong.
  void create(const CreateOrder& order, const OnStatus& on_status);

  /// Downloads what is missing and offers the model. Throws what store::Registry throws.
  void pull(const std::string& name, const store::Watch& watch);

  /// Removes a name, or a model with its files. Throws Error(kNotFound), and Error(kInvalidRequest) for a
  /// folder that is not the server's to remove and for a model that has other names.
  void remove(const std::string& name);

  /// Joins the threads: downloads must have been cancelled. Idempotent.
  void stop();

 private:
  std::filesystem::path entries_folder() const { return options_.folder / "models"; }
  std::filesystem::path weights_folder(const Entry& entry) const;
  bool is_served(const std::string& name) const;
  void offer(const Entry& entry);
  store::Located locate(const Entry& entry) const;
  store::Located locate_upload(const Entry& entry) const;
  void add_source(const store::Located& located, const std::string& name);
  void keep(const Entry& entry);
  void replace(const Entry& entry);
  void link_files(const Entry& entry) const;
  void check_files(const Entry& entry) const;
  void remove_weights(const Entry& entry) const;
  void require_usable_name(const std::string& name) const;
  std::optional<Entry> entry_of(std::string_view name) const;
  std::optional<store::Located> located_of(const std::string& id) const;
  Facts facts_of(const pool::ModelEntry& card);
  Listing listing_of(const std::string& name, const pool::ModelEntry& card);
  void remove_locked(const std::string& name);
  void remove_files(const std::string& id, const std::optional<Entry>& entry);

  const std::shared_ptr<pool::ModelPool> models_;
  LibraryOptions options_;
  serve::Workers short_tasks_, long_tasks_;
  Blobs blobs_;

  std::mutex changes_;  // held by whoever changes what is offered
  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;  // by name
  std::map<std::string, store::Located> located_;      // by the pool's id
  std::map<std::string, Facts> facts_;                 // by the pool's id, as far as they were asked for
};

}  // namespace penstock::library
