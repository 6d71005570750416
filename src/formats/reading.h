// What the steps of one parser share.
#pragma once

#include "formats/input.h"
#include "formats/piece_writer.h"
#include "formats/tool_set.h"

namespace penstock::formats {

struct Reading {
  Input in;
  PieceWriter out;
  ToolSet tools;
};

}  // namespace penstock::formats
