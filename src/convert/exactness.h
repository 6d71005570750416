// Which floating-point type holds stored numbers exactly. Reads the matrix, stops at the first number that
// does not fit.
#pragma once

#include "quant/matrix.h"
#include "tensor/dtype.h"

namespace penstock::convert {

/// True when rounding to `dtype` and back changes nothing, the sign of zero included.
bool holds(tensor::DType dtype, float value);

/// Whether `dtype` holds every value of the matrix after `offset` is added, and that sum can be undone.
bool holds_values(tensor::DType dtype, const quant::Matrix& matrix, float offset, int threads);

/// Whether `dtype` holds every scale and bias of the matrix's integer form.
bool holds_scales(tensor::DType dtype, const quant::Matrix& matrix, int threads);

}  // namespace penstock::convert
