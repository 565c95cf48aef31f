// SPDX-License-Identifier: Apache-2.0
// No file that a command writes may be one that it reads.
#pragma once

#include "command_line.hpp"

namespace sluice::app {

// Asked before any command does anything. Throws error (errc::invalid_argument) that names the option and both files
// when a file that the command is to write is one of its inputs, by name or through a link of any kind: a network and
// the files of its external data, arrays, tables, pictures of a folder, labels, references, files of a repository,
// certificates, tokens. Costs a look at each of these files where a file of the output's name is there already; and
// what loading an ONNX network costs where that file may be external data of it.
void refuse_overwritten_inputs(const command_line& line);

}  // namespace sluice::app
