// The kernels of the CPU executor as one table of functions, and the plain views that they work on. One table
// for each instruction set; all tables give the same bits. Any thread; no allocation, no locks. Includes no
// library code: files built for a wider instruction set must not emit shared inline functions.
#pragma once

#include <cstdint>

namespace penstock::exec::cpu {

/// How packed codes lie in memory, in planes of 32 columns of a strip: for row r, byte 4r + i of a vector of
/// 32 bytes. Columns are counted from the start of the 32; a step is four columns.
///   4-bit plane: four vectors, vector v holds column 8v + i (low half) and 8v + 4 + i (high half)
///   2-bit plane: two vectors, from the low bits of vector v on columns 8v + i, 16 + 8v + i, 8v + 4 + i and
///     20 + 8v + i
///   three, five, six bits: as many vectors. Whole codes first, step after step, two in a byte of three bits,
///     one in the others; the steps that are left in the bits above them:
///     three: bits 0..1 of steps 6 and 7 in vectors 0 and 1, their bit 2 in bits 6 and 7 of vector 2
///     five: steps 5 and 6, bits 0..2 in vectors 0 and 2, bits 3..4 in bits 5..6 of vectors 1 and 3; step 7,
///     bits
///       0..2 in vector 4, bits 3 and 4 in bit 7 of vectors 1 and 3
///     six: step 6 by pairs of bits in vectors 0..2, step 7 in vectors 3..5
///   bytes: eight vectors, vector v holds column 4v + i, minus 128
///   numbers: eight vectors, vector v holds column 4v + i
enum class CodeLayout : uint8_t {
  kTwo,  // 2-bit plane
  kThree,
  kFour,  // 4-bit plane
  kFive,
  kSix,
  kEight,  // bytes
  kFp4,    // 4-bit plane of E2M1 numbers, whose code is twice the number plus 12
  kFp8,    // E4M3 numbers, scales of E8M0 with factor 1; no integers, for linear_exact only
};

constexpr int32_t code_bits(CodeLayout layout) {
  constexpr int32_t kBits[] = {2, 3, 4, 5, 6, 8, 4, 8};
  return kBits[static_cast<int32_t>(layout)];
}

/// True for layouts whose groups may be of 16 columns: the formats that have such groups.
constexpr bool takes_sixteens(CodeLayout layout) {
  return layout == CodeLayout::kTwo || layout == CodeLayout::kThree || layout == CodeLayout::kSix ||
         layout == CodeLayout::kFp4;
}

/// How scales and biases of packed codes are stored: always exactly.
enum class ScaleType : uint8_t {
  kF16,
  kBF16,
  kF32,
  kE8M0,    // a power of two, times scale_factor
  kE4M3,    // an 8-bit float, times scale_factor
  kNested,  // an int8, times a half for each row and 256 columns: the GGUF K formats
  kPaired,  // as kNested, but one byte holds four bits of the scale below four of the bias: GGUF Q2_K
};

inline constexpr int32_t kStripRows = 8;        // rows of a packed strip: lanes of a vector
inline constexpr int32_t kChunk = 32;           // columns of a plane
inline constexpr int32_t kNestedColumns = 256;  // columns of a block with nested scales
inline constexpr int32_t kStoredBias = INT32_MIN;
inline constexpr int32_t kTileKeys = 64;    // positions of a KV block and of an attention tile
inline constexpr int32_t kPanelKeys = 16;   // keys of one panel of a tile
inline constexpr int32_t kPartition = 256;  // absolute positions whose softmax is one partial result

inline constexpr float kLog2E = 1.44269504f;

/// 2 to the power f, f in [-0.5, 0.5], is the polynomial of these from the constant term on: a minimax fit,
/// relative error 1.6e-7 as Horner's scheme of multiply-adds.
inline constexpr float kExp2[] = {1.0f,          0.693147004f,   0.240222424f,
                                  0.0555073358f, 0.00967151299f, 0.00132647273f};

/// erf(x) = 1 - 2 t (kErf[0] + kErf[1] t + ...) exp(-x^2), t = 1 / (1 + p x), of x >= 0: halves of the
/// numbers of Abramowitz and Stegun 7.1.26, error 1.5e-7. kErfSlope is p / sqrt(2), for gelu's erf(x /
/// sqrt(2)).
inline constexpr float kErf[] = {0.127414796f, -0.142248368f, 0.7107068705f, -0.7265760135f, 0.5307027145f};
inline constexpr float kErfSlope = 0.231641888f;

/// A matrix of integer codes, value = scale * code + bias, in strips of 8 rows. A strip is a run of blocks of
/// one group of columns (two groups of 16, or 256 columns with nested scales): planes of codes, then for each
/// group 8 scales and, where biases are stored, 8 biases. Nested: 8 halves for the scales, 8 for the biases,
/// then for each group 8 int8, and then for each group 8 int8 of the biases (paired: in the same bytes). Rows
/// past the end are zeros.
struct PackedCodes {
  const uint8_t* blocks = nullptr;  // [strips][blocks][block_bytes]
  int64_t rows = 0, cols = 0;       // cols: whole blocks
  int32_t group = 0;                // columns that share a scale: 32, 64, 128, or 16 (takes_sixteens)
  CodeLayout layout = CodeLayout::kFour;
  ScaleType scale_type = ScaleType::kF32;
  int32_t zero = kStoredBias;  // otherwise the bias is -zero * scale and is not stored
  float scale_factor = 1;

  bool has_bias() const { return zero == kStoredBias; }
  bool nested() const { return scale_type == ScaleType::kNested || scale_type == ScaleType::kPaired; }
  int64_t groups() const { return cols / group; }
  int64_t strips() const { return (rows + kStripRows - 1) / kStripRows; }
  int32_t block_cols() const { return nested() ? kNestedColumns : group < kChunk ? kChunk : group; }
  int32_t block_groups() const { return block_cols() / group; }
  int64_t blocks_of_strip() const { return cols / block_cols(); }
  int64_t code_bytes() const { return int64_t{block_cols()} * code_bits(layout); }
  int64_t chunk_bytes() const { return int64_t{kChunk} * code_bits(layout); }

  /// Bytes of one scale of one row; of the small integer where scales are nested.
  int64_t scale_bytes() const {
    if (scale_type == ScaleType::kF32) return 4;
    return scale_type == ScaleType::kF16 || scale_type == ScaleType::kBF16 ? 2 : 1;
  }
  /// From the start of a block to the first scale and the first bias, and from one group's to the next.
  int64_t scales_at() const { return code_bytes() + (nested() ? 2 * kStripRows * kinds() : 0); }
  int64_t group_scale_bytes() const { return kStripRows * scale_bytes() * (nested() ? 1 : kinds()); }
  int64_t biases_at() const {
    if (scale_type == ScaleType::kPaired) return scales_at();
    return scales_at() + (nested() ? block_groups() * kStripRows : kStripRows * scale_bytes());
  }
  int64_t block_bytes() const {
    const int64_t stored = scale_type == ScaleType::kPaired ? 1 : kinds();
    return scales_at() + int64_t{block_groups()} * kStripRows * scale_bytes() * stored;
  }
  int64_t strip_bytes() const { return blocks_of_strip() * block_bytes(); }

  /// What is added to the sum of a group, times the sum of its activation codes: stored bytes are 128 less
  /// than the code, and a zero point counts as many more.
  int32_t offset() const { return (layout == CodeLayout::kEight ? 128 : 0) - (has_bias() ? 0 : zero); }

 private:
  int64_t kinds() const { return has_bias() ? 2 : 1; }
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

/// How the numbers of keys or values are stored. Codes are two's complement; two of four bits share a byte,
/// and in each 16 bytes the low halves come before the high ones.
enum class KvType : uint8_t { kF32, kF16, kCodes8, kCodes4 };

/// Keys and values of 64 positions of one KV head. Where there are scales, a number is a code, which may be a
/// float by now, times the scale that its position has for the group of dimensions.
struct AttendTile {
  const void* keys = nullptr;    // [4 panels][dim][16]; kCodes4: [4 panels][dim / 2][16], even dimensions low
  const void* values = nullptr;  // [64][value_stride]; kCodes4: [64][dim / 32, rounded up][16]
  int32_t dim = 0;
  int32_t value_stride = 0;  // dim rounded up to 8
  KvType key_type = KvType::kF32, value_type = KvType::kF32;
  const void* next = nullptr;         // keys of a tile that lies like this one and is read soon, or null
  const float* key_scales = nullptr;  // [groups][64] or null
  const float* value_scales = nullptr;
  int32_t key_group = 0, value_group = 0;  // dimensions that share a scale, multiples of 32
};

/// Queries that read one tile, with their running softmax. A key outside [first, last) of a query contributes
/// nothing, whatever its memory holds.
struct AttendQueries {
  const float* q = nullptr;        // [n, value_stride]
  const int32_t* first = nullptr;  // [n] keys of this tile
  const int32_t* last = nullptr;   // [n]
  float* max = nullptr;            // [n] largest score times log2(e), -inf before the first tile
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

struct Kernels {
  const char* name;
  int32_t strips = 2;    // that linear_codes takes together: ranges of a multiple of so many lose nothing
  int32_t queries = 24;  // that attend_tile is best given together; fewer for short sequences

  /// Quantises one row of x [cols] to group-wise int8. out.m is not read.
  void (*quantize_row)(const float* x, const QuantRows& out);

  /// Integer codes times quantised activations: exact integer group sums (a zero point inside them), then for
  /// each group in order acc = fma(scale * a, sum, acc), and acc = fma(bias, a * sum of activation codes,
  /// acc) where biases are stored. scratch: codes_scratch_bytes(w.cols).
  void (*linear_codes)(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                       uint8_t* scratch);

  /// Codes times float32 activations: w = fma(code, scale, bias), or (code - zero) * scale where no bias is
  /// stored, or number * scale; acc = fma(w, x, acc) in column order. Numbers are summed for each group, then
  /// acc = fma(sum, scale, acc). scratch: exact_scratch_floats(m).
  void (*linear_exact)(const PackedCodes& w, const FloatRows& x, Range strips, const LinearOut& out,
                       float* scratch);

  /// Dense weights times float32 activations: 16 running sums by column modulo 16, folded in a fixed tree.
  void (*linear_dense)(const DenseMatrix& w, const FloatRows& x, Range rows, const LinearOut& out);

  /// out = x * (1 / sqrt(mean(x^2) + eps)) * weight; out may be x.
  void (*rms_norm)(const float* x, const float* weight, int64_t n, float eps, float* out);

  /// out = d * (1 / sqrt(mean(d^2) + eps)) * weight + bias, d = x - mean(x); out may be x.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, int64_t n, float eps,
                     float* out);

  /// out = gate_function(gate) * up; out may be either.
  void (*activate)(Gate function, const float* gate, const float* up, int64_t n, float* out);

  /// y += x.
  void (*add)(const float* x, int64_t n, float* y);

  /// Turns the pairs (x[i], x[i + half]) by (cos[i], sin[i]).
  void (*rotate)(float* x, const float* cos, const float* sin, int64_t half);

  /// Rounds to half precision, saturating at the largest finite half.
  void (*to_f16)(const float* x, int64_t n, uint16_t* out);
  void (*from_f16)(const uint16_t* x, int64_t n, float* out);

  /// Codes as they are stored to floats. n: numbers, of four bits a multiple of 32.
  void (*from_codes8)(const int8_t* codes, int64_t n, float* out);
  void (*from_codes4)(const uint8_t* codes, int64_t n, float* out);

  /// One tile of the running softmax of some queries.
  void (*attend_tile)(const AttendTile& tile, const AttendQueries& queries);

  /// into = into and then next, positions in order. An `into` with max -inf is empty.
  void (*merge_partial)(const Partial& next, const Partial& into, int64_t n);

  /// out = acc / sum.
  void (*finish_partial)(const Partial& from, int64_t n, float* out);

  /// x = cap * tanh(x / cap).
  void (*softcap)(float* x, int64_t n, float cap);
};

/// Columns that linear_exact unpacks at a time and rows of its panel.
inline constexpr int64_t kExactColumns = 128;
inline constexpr int64_t kExactStrips = 4;

/// Scratch of linear_codes: four unpacked strips, with scales at their smallest group.
inline int64_t codes_scratch_bytes(int64_t cols) {
  return 4 * kStripRows * cols + (cols / 16 + 1) * 8 * kStripRows * 4;
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
const Kernels* avx512_kernels();
const Kernels* neon_kernels();
const Kernels* neon_dotprod_kernels();
const Kernels* neon_i8mm_kernels();

}  // namespace penstock::exec::cpu
