// SPDX-License-Identifier: Apache-2.0
// The statistics of a model as the protocol's message.
#pragma once

#include <inference.pb.h>
#include "sluice/serve/served_model.hpp"

namespace sluice::serve {

void write_statistics(inference::ModelStatistics& to, const served_model& model);

}  // namespace sluice::serve
