// The kernels of the CPU executor as one table of functions, and the plain views that they work on. One table
// for each instruction set; all tables give the same bits. Any thread; no allocation, no locks. Includes no
// library code: files built for a wider instruction set must not emit shared inline functions.
#pragma once

#include <cstdint>

namespace penstock::exec::cpu {

/// How many bits a packed code takes in memory.
enum class CodeWidth : uint8_t { kFour, kEight };

/// How scales and biases of packed codes are stored: always exactly.
enum class ScaleType : uint8_t { kF16, kBF16, kF32 };

inline constexpr int32_t kStripRows = 8;    // rows of a packed strip: lanes of a vector
inline constexpr int32_t kTileKeys = 64;    // positions of a KV block and of an attention tile
inline constexpr int32_t kPanelKeys = 16;   // keys of one panel of a tile
inline constexpr int32_t kPartition = 256;  // absolute positions whose softmax is one partial result

/// A matrix of integer codes, value = scale * code + bias, in strips of 8 rows. A strip is one block for each
/// group of columns: codes, then 8 scales, then 8 biases. Four-bit codes: vector v of a block holds for row
/// r at bytes 4r..4r+3 the columns 8v..8v+3 (low halves) and 8v+4..8v+7 (high halves). Eight-bit codes:
/// vector v holds columns 4v..4v+3; codes of 8 bits are stored minus 128. Rows past the end are zeros.
struct PackedCodes {
  const uint8_t* blocks = nullptr;  // [strips][groups][block_bytes]
  int64_t rows = 0, cols = 0;
  int32_t group = 0;      // columns of a block: 16, 32, 64 or 128
  int32_t code_bits = 0;  // codes are below 2^code_bits
  CodeWidth width = CodeWidth::kFour;
  ScaleType scale_type = ScaleType::kF32;

  int64_t groups() const { return cols / group; }
  int64_t strips() const { return (rows + kStripRows - 1) / kStripRows; }
  int64_t code_bytes() const {
    return static_cast<int64_t>(group) * kStripRows / (width == CodeWidth::kFour ? 2 : 1);
  }
  int64_t scale_bytes() const { return scale_type == ScaleType::kF32 ? 4 : 2; }
  int64_t block_bytes() const { return code_bytes() + 2 * kStripRows * scale_bytes(); }
  int64_t strip_bytes() const { return groups() * block_bytes(); }
  bool is_signed() const { return code_bits == 8; }
};

enum class DenseType : uint8_t { kF32, kF16, kBF16 };

/// A floating-point matrix whose rows are contiguous.
struct DenseMatrix {
  const uint8_t* data = nullptr;
  const int32_t* row_order = nullptr;  // row r is stored row row_order[r]; null: identity
  int64_t rows = 0, cols = 0;
  DenseType type = DenseType::kF32;
};

/// Activations as integers: x = scale * code with |code| <= 127, one scale for each group of columns.
struct QuantRows {
  int8_t* codes = nullptr;       // [m, cols]
  float* scales = nullptr;       // [m, cols / group]
  float* sums = nullptr;         // [m, cols / group] scale * (sum of the group's codes)
  int32_t* code_sums = nullptr;  // [m, cols / group]
  int64_t cols = 0;
  int32_t group = 0;
  int32_t m = 0;
};

struct FloatRows {
  const float* x = nullptr;  // [m, stride], cols used
  int64_t stride = 0;
  int32_t m = 0;
};

/// Strips or rows [first, last) of a matrix: one thread's share.
struct Range {
  int64_t first = 0, last = 0;
};

/// y = W x (+ bias), written or added to out.
struct LinearOut {
  float* out = nullptr;  // [m, stride]
  int64_t stride = 0;
  const float* bias = nullptr;  // [rows] or null
  bool add = false;
};

/// Which function goes between gate and up.
enum class Gate : uint8_t { kSilu, kGeluTanh, kGelu };

/// Keys and values of 64 positions of one KV head, in float32.
struct AttendTile {
  const float* keys = nullptr;    // [4 panels][dim][16]
  const float* values = nullptr;  // [64][value_stride]
  int32_t dim = 0;
  int32_t value_stride = 0;  // dim rounded up to 8
};

/// Queries that read one tile, with their running softmax. A key outside [first, last) of a query contributes
/// nothing, whatever its memory holds.
struct AttendQueries {
  const float* q = nullptr;        // [n, value_stride]
  const int32_t* first = nullptr;  // [n] keys of this tile
  const int32_t* last = nullptr;   // [n]
  float* max = nullptr;            // [n] -inf before the first tile
  float* sum = nullptr;            // [n] 0 before the first tile
  float* acc = nullptr;            // [n, value_stride] 0 before the first tile
  float* scores = nullptr;         // [n, 64] scratch
  int32_t n = 0;
  float scale = 1;
  float softcap = 0;
};

/// A finished or running softmax over some positions.
struct Partial {
  float* max = nullptr;
  float* sum = nullptr;
  float* acc = nullptr;  // [value_stride]
};

/// What greedy sampling needs of one run of logits.
struct LogitBlock {
  float max = 0;
  int32_t argmax = 0;  // smallest index among equals
  float sum_exp = 0;   // of exp(logit - max); NaN when a logit is
};

struct Kernels {
  const char* name;

  /// Quantises one row of x [cols] to group-wise int8. out.m is not read.
  void (*quantize_row)(const float* x, const QuantRows& out);

  /// Integer codes times quantised activations: exact integer group sums, then for each group in order
  /// acc = fma(scale * a, sum, acc), acc = fma(bias, a * sum of activation codes, acc).
  /// scratch: codes_scratch_bytes(w.cols).
  void (*linear_codes)(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                       uint8_t* scratch);

  /// Integer codes times float32 activations: w = fma(code, scale, bias), acc = fma(w, x, acc) in column
  /// order. scratch: exact_scratch_floats(m).
  void (*linear_exact)(const PackedCodes& w, const FloatRows& x, Range strips, const LinearOut& out,
                       float* scratch);

  /// Dense weights times float32 activations: 16 running sums by column modulo 16, folded in a fixed tree.
  void (*linear_dense)(const DenseMatrix& w, const FloatRows& x, Range rows, const LinearOut& out);

  /// out = x * (1 / sqrt(mean(x^2) + eps)) * weight; out may be x.
  void (*rms_norm)(const float* x, const float* weight, int64_t n, float eps, float* out);

  /// out = gate_function(gate) * up; out may be either.
  void (*activate)(Gate function, const float* gate, const float* up, int64_t n, float* out);

  /// y += x.
  void (*add)(const float* x, int64_t n, float* y);

  /// Turns the pairs (x[i], x[i + half]) by (cos[i], sin[i]).
  void (*rotate)(float* x, const float* cos, const float* sin, int64_t half);

  /// Rounds to half precision, saturating at the largest finite half.
  void (*to_f16)(const float* x, int64_t n, uint16_t* out);
  void (*from_f16)(const uint16_t* x, int64_t n, float* out);

  /// One tile of the running softmax of some queries.
  void (*attend_tile)(const AttendTile& tile, const AttendQueries& queries);

  /// into = into and then next, positions in order. An `into` with max -inf is empty.
  void (*merge_partial)(const Partial& next, const Partial& into, int64_t n);

  /// out = acc / sum.
  void (*finish_partial)(const Partial& from, int64_t n, float* out);

  /// x = cap * tanh(x / cap).
  void (*softcap)(float* x, int64_t n, float cap);

  LogitBlock (*logit_block)(const float* logits, int64_t n);
};

/// Columns that linear_exact unpacks at a time and rows of its panel.
inline constexpr int64_t kExactColumns = 128;
inline constexpr int64_t kExactStrips = 4;

/// Scratch of linear_codes: two unpacked strips, with scales at their smallest group.
inline int64_t codes_scratch_bytes(int64_t cols) {
  return 2 * kStripRows * cols + (cols / 16 + 1) * 4 * kStripRows * 4;
}

/// Scratch of linear_exact for m rows of activations.
inline int64_t exact_scratch_floats(int64_t m) {
  return kExactStrips * kStripRows * (kExactColumns + m);
}

/// The portable table: plain C++, the readable twin of every other.
const Kernels& scalar_kernels();

/// Null where the program was built for another processor. A table of this list may be used only on a
/// processor that has its instructions: choose_kernels() of processor.h knows.
const Kernels* avx2_kernels();
const Kernels* neon_kernels();
const Kernels* neon_dotprod_kernels();

}  // namespace penstock::exec::cpu
