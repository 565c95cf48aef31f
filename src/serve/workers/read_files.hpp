// SPDX-License-Identifier: Apache-2.0
// Whether a model's files are still those that another worker has read: two workers must not answer from two contents.
#pragma once

#include "serve/workers/model_message.hpp"

namespace sluice::serve {

// The model's file and those that it keeps constants in, as they are now. Throws what reading them throws. Where links
// lead out of the folder, only the model's file is looked at. Costs a read of an ONNX file with external data.
files_as_read files_of(const model_version& which);

// Throws file_error for a file that has changed since, or is not there.
void require_as_read(const files_as_read& files);

}  // namespace sluice::serve
