class Shape(BaseModel):
    sides: int


class Plain:
    pass
