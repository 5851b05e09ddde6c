# cmake -DOUT=messages.h -DHEADERS=a.pb-c.h;b.pb-c.h -P messages.cmake
#
# Writes one typedef a message, from the name in the method table
# (common/wire/method.h) to the struct of protobuf-c:
#
#     typedef Sluice__V1__ReportMessage message_report_message;
set(text "#ifndef PROTO_MESSAGES_H\n#define PROTO_MESSAGES_H\n\n")
set(typedefs "")
foreach(header IN LISTS HEADERS)
  get_filename_component(name "${header}" NAME)
  string(APPEND text "#include \"proto/${name}\"\n")
  file(STRINGS "${header}" lines REGEX "^typedef struct Sluice__V1__[A-Za-z]+ ")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^typedef struct Sluice__V1__([A-Za-z]+) .*" "\\1"
      message "${line}")
    string(REGEX REPLACE "([a-z])([A-Z])" "\\1_\\2" snake "${message}")
    string(TOLOWER "${snake}" snake)
    string(APPEND typedefs
      "typedef Sluice__V1__${message} message_${snake};\n")
  endforeach()
endforeach()
file(WRITE "${OUT}" "${text}\n${typedefs}\n#endif\n")
