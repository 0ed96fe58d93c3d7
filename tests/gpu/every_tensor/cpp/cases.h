// The cases, by the names under which main.cpp runs them.
#pragma once

#include <filesystem>

namespace cases {

using Folder = const std::filesystem::path&;

void memory_modes(Folder programs);
void pointer_kinds(Folder programs);
void other_gpu(Folder programs);
void device_path(Folder programs);
void streams(Folder programs);
void threads(Folder programs);
void host_path(Folder programs);
void green_context(Folder programs);
void replays(Folder programs);
void million(Folder programs);
void sharing(Folder programs);
void chain(Folder programs);
void warm(Folder programs);
void load_time(Folder programs);
void load_rounds(Folder programs);

}  // namespace cases
