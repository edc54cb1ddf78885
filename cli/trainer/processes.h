// Ranks as threads of this process, or as processes of which this is one.
#pragma once

#include <functional>
#include <string>

#include "laconic/exchange/transport.h"
#include "laconic/trainer/settings.h"

namespace laconic::cli {

// What --transport takes, for its help.
std::string transport_help();

// As many workers as ranks have joined; throws UsageError where another number was asked for.
void take_ranks(trainer::Settings& settings, bool asked_for, int ranks);

// Calls prepare and then work, with this process's end among others, or with null where ranks are
// to be threads of this one. What keeps a process from starting, found in prepare, all hear and
// rank 0 says; later a rank that fails says why and ends all. Throws UsageError for a transport
// that is not known.
void on_transport(const std::string& name, double timeout_seconds,
                  const std::function<void(const Transport*)>& prepare,
                  const std::function<void(Transport*)>& work);

}  // namespace laconic::cli
