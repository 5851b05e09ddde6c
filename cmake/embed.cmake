# cmake -DOUT=FILE.c -DNAME=opencl_files -DFILES=a.cl;b.cl -P embed.cmake
#
# Writes FILES as bytes into one C file, with a table of them in order of
# name: struct embedded NAME[], its last row all zeros (common/base/embedded.h).
# Bytes, not string literals: C11 promises only 4095 characters of those.
set(table "")
set(text "#include \"common/base/embedded.h\"\n\n")
string(APPEND text "extern const struct embedded ${NAME}[];\n\n")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  string(MAKE_C_IDENTIFIER "${name}" id)
  file(READ "${file}" hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex
    "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  # No warning where char is signed.
  string(REGEX REPLACE "0x([89a-f][0-9a-f])" "(char)0x\\1" bytes "${bytes}")
  string(APPEND text "static const char ${id}[] = {\n${bytes}0};\n\n")
  string(APPEND table "    {\"${name}\", ${id}, sizeof ${id} - 1},\n")
endforeach()
string(APPEND text
  "const struct embedded ${NAME}[] = {\n${table}    {0, 0, 0},\n};\n")
file(WRITE "${OUT}" "${text}")
