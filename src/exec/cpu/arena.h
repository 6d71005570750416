// Zeroed memory for weights, caches and scratch, 64-byte aligned and in huge pages where the system has them.
// Owned by one object; no locks. Pages are taken from the system when they are first written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace penstock::exec::cpu {

class Arena {
 public:
  Arena() = default;
  /// Throws Error(kOverloaded) when the system has no such memory.
  explicit Arena(size_t bytes);
  Arena(Arena&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Arena& operator=(Arena&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Arena();

  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

  /// Gives the pages wholly inside this part back to the system; they are zero when they are next touched.
  void drop(size_t first_byte, size_t bytes) const;

 private:
  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
};

/// An arena for n elements of T.
template <class T>
class Array {
 public:
  Array() = default;
  explicit Array(size_t n) : arena_(n * sizeof(T)), size_(n) {}
  T* data() const { return arena_.template as<T>(); }
  size_t size() const { return size_; }
  size_t bytes() const { return arena_.bytes(); }
  T& operator[](size_t i) const { return data()[i]; }

 private:
  Arena arena_;
  size_t size_ = 0;
};

/// Pieces of memory that live as long as each other, cut from few arenas: small matrices too lie in huge
/// pages.
class Slabs {
 public:
  /// Zeroed and 64-byte aligned. Throws Error(kOverloaded) when the system has no such memory.
  uint8_t* take(size_t bytes);

  /// Gives back the piece that was taken last; once.
  void undo();

 private:
  std::vector<Arena> slabs_;
  size_t last_ = 0, end_ = 0;  // of the last slab: where its last piece begins and ends
};

/// Gives back the pages inside [data, data + bytes) if they belong to a read-only file mapping; they are read
/// again when touched. Does nothing for other memory.
class MappedPages {
 public:
  /// Looks up which addresses are read-only file mappings now.
  MappedPages();
  ~MappedPages();
  MappedPages(const MappedPages&) = delete;
  MappedPages& operator=(const MappedPages&) = delete;

  void drop(const void* data, size_t bytes) const;

 private:
  struct Ranges;
  Ranges* ranges_;
};

}  // namespace penstock::exec::cpu
