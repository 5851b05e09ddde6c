/* Placeholder until the room has its first source. */
typedef int room_plan;
