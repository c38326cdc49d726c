class Model(BaseModel)
    a: str
