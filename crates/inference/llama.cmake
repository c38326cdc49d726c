# Settings for the build of llama.cpp that its crate has no option for. Without this file the build takes twice as long and
# gives the same program.

# The library with what llama.cpp's own command line tools share. `llama-cpp-2` turns it on for every user, and we use none of it.
set(LLAMA_BUILD_COMMON OFF CACHE BOOL "" FORCE)

# Builds for development: no debug information of C++, which is most of the time to compile it and of the size of every test.
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG")
