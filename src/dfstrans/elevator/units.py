"""Types that carry a unit, so that every parameter of the simulator says what it is measured in."""

from __future__ import annotations

from typing import Annotated

Metre = Annotated[float, "m"]
Second = Annotated[float, "s"]
Kilogram = Annotated[float, "kg"]
KilogramPerMetre = Annotated[float, "kg/m"]
KilogramMetre = Annotated[float, "kg m"]
Inertia = Annotated[float, "kg m²"]
Newton = Annotated[float, "N"]
NewtonMetre = Annotated[float, "Nm"]
Stiffness = Annotated[float, "N/m"]
Damping = Annotated[float, "Ns/m"]
RotaryStiffness = Annotated[float, "Nm/rad"]
RotaryDamping = Annotated[float, "Nms/rad"]
Speed = Annotated[float, "m/s"]
Acceleration = Annotated[float, "m/s²"]
Jerk = Annotated[float, "m/s³"]
Radian = Annotated[float, "rad"]
PerSecond = Annotated[float, "1/s"]
Hertz = Annotated[float, "Hz"]
Ohm = Annotated[float, "Ω"]
Henry = Annotated[float, "H"]
Weber = Annotated[float, "Wb"]
Volt = Annotated[float, "V"]
Celsius = Annotated[float, "°C"]
Ratio = Annotated[float, "1"]
