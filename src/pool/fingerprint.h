// What tells cached blocks of one model, executor and program from those of all others. Loader thread.
#pragma once

#include "exec/executor.h"
#include "models/model_files.h"
#include "tier/block_file.h"

namespace penstock::pool {

/// Of the config, the weight files (their sizes and samples of their bytes, since reading them all would cost
/// more than loading), the executor's block format and the program's version. Of a loaded executor.
tier::Fingerprint fingerprint_of(const models::ModelFiles& files, const exec::Caps& caps);

}  // namespace penstock::pool
